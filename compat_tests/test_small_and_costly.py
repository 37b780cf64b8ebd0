"""Small requests that once froze the process hold up nobody; ``small_and_costly`` has more kinds of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from compat_tests.costly_rounds import (
    MOST_BYTES,
    NOISE_BLOCKS,
    OPEN_QUEUE_FILES,
    OPEN_TWICE,
    STAYS,
    Descriptors,
    InUse,
    Seen,
    Trial,
)
from compat_tests.environment import wait_until
from compat_tests.small_and_costly import KINDS as ALL_KINDS
from compat_tests.small_and_costly import run
from compat_tests.unread_answers import MIB, Longest, processor_wait_s
from gateway.tests.stalls import Stalls

KINDS = ("endless_queues", "numbers", "poison", "lenient", "locks")
LONGEST_S = 3.0
"""An honest client's wait beside other tests on the same processors; alone it is 0.5 s at most.

What the machine made everybody wait comes on top. Each kind once took between five seconds and a minute, or all memory.
"""


def test_small_requests_that_cost_much_hold_up_nobody(tmp_path: Path) -> None:
    with Stalls(tmp_path) as stalls:
        trial = run(KINDS, rounds=1)
    assert not trial.refusals
    for seen in trial.rounds[0]:
        assert seen.own_wait_s < LONGEST_S + stalls.longest_ms / 1_000, seen
        assert seen.peak_bytes < MOST_BYTES, seen
        assert seen.descriptors.others <= 0, seen


IDLE = 40 * MIB
NOTHING = Descriptors()
USED = InUse(500_000, 60 * MIB)


def one(
    kind: str = "offsets",
    *waits: Longest,
    peak: float = 0,
    after: float = 0,
    in_use: InUse = USED,
    descriptors: Descriptors = NOTHING,
) -> Seen:
    """What a kind did, with memory in MiB."""
    return Seen(kind, waits or (Longest(),), round(peak * MIB), round(after * MIB), in_use, descriptors, Counter())


def faults(*rounds: list[Seen]) -> list[str]:
    """The verdict over rounds beside a server of 40 MiB."""
    return Trial(IDLE, rounds).faults()


def test_memory_and_descriptors_that_are_back_are_no_fault() -> None:
    assert faults(*[[one(after=4, peak=381), one("locks", after=3.9)]] * 10) == []


def test_growth_of_the_memory_in_use_is_told_with_its_amount() -> None:
    grown = [InUse(500_000 + number * 10_000, (60 + number) * MIB) for number in range(10)]
    assert faults(*[[one(in_use=used), one("locks", in_use=used)] for used in grown]) == [
        "offsets: in use 590000.00 blocks, 29000.00 over the limit of 561000.00",
        "offsets: in use of the heap 69.00 MiB, 1.90 over the limit of 67.10",
        "locks: in use 590000.00 blocks, 29000.00 over the limit of 561000.00",
        "locks: in use of the heap 69.00 MiB, 1.90 over the limit of 67.10",
        "all: in use 590000.00 blocks, 40000.00 over the limit of 550000.00",
        "all: in use of the heap 69.00 MiB, 3.00 over the limit of 66.00",
    ]


def test_a_little_more_of_little_memory_in_use_is_no_growth() -> None:
    little = InUse(50_000, 5 * MIB)
    more = InUse(little.blocks + NOISE_BLOCKS, little.heap_bytes + 4 * MIB)
    assert faults([one(in_use=little)], [one(in_use=more)]) == []
    assert len(faults([one(in_use=little)], [one(in_use=InUse(more.blocks + 1, more.heap_bytes + 1))])) == 2


def test_free_pieces_may_come_and_go_below_their_limit() -> None:
    """Which pieces stay depends on the order of the requests: memory in use shows whether something is lost."""
    stays = STAYS["held_pulls"].pieces
    assert faults([one("held_pulls", after=30)], [one("held_pulls", after=stays)]) == []
    assert faults([one("held_pulls", after=30)], [one("held_pulls", after=stays + 5)], [one("held_pulls")]) == [
        f"all: above idle after a round {stays + 5:.2f} MiB, 1.00 over the limit of {stays + 4:.2f}",
    ]


def test_a_kind_that_leaves_memory_is_told_even_if_nothing_grows_later() -> None:
    assert faults(*[[one(after=3), one("locks", after=8)]] * 3) == [
        "locks: left in the first round 5.00 MiB, 1.00 over the limit of 4.00",
        "all: above idle after a round 8.00 MiB, 4.00 over the limit of 4.00",
    ]


def test_what_stays_by_design_has_a_limit_that_is_judged() -> None:
    stays = STAYS["held_pulls"].pieces
    assert faults([one("held_pulls", after=stays + 5)]) == [
        f"held_pulls: left in the first round {stays + 5:.2f} MiB, 1.00 over the limit of {stays + 4:.2f}",
        f"all: above idle after a round {stays + 5:.2f} MiB, 1.00 over the limit of {stays + 4:.2f}",
    ]


def test_pieces_that_stay_are_shared_by_kinds_and_objects_are_not() -> None:
    seen = [one("held_pulls", after=79), one("registrations", after=90), one("new_queues", after=100)]
    assert faults(seen) == ["all: above idle after a round 100.00 MiB, 9.00 over the limit of 91.00"]


def test_what_may_stay_is_what_the_page_of_limits_says() -> None:
    page = (Path(__file__).parents[1] / "docs" / "limits.md").read_text()
    told = re.findall(r"^\| .*\((\w+)\) \| (\d+) MiB \| (\d+) MiB \|", page, re.MULTILINE)
    assert {kind: (int(objects), int(pieces)) for kind, objects, pieces in told} == STAYS
    assert set(STAYS) <= set(ALL_KINDS)


def test_the_most_memory_of_any_round_is_judged() -> None:
    (fault,) = faults([one(peak=382)], [one()])
    assert fault == "offsets: at most 382.00 MiB, 0.53 over the limit of 381.47"


def test_descriptors_that_stay_are_told() -> None:
    assert faults([one(descriptors=Descriptors(2))]) == [
        "offsets: descriptors left open 2.00 more than before, 2.00 over the limit of 0.00"
    ]
    assert faults([one(descriptors=Descriptors(-1, OPEN_QUEUE_FILES, OPEN_TWICE))]) == []
    assert len(faults([one(descriptors=Descriptors(0, OPEN_QUEUE_FILES + 1, OPEN_TWICE + 1))])) == 2


def test_refused_honest_clients_are_told() -> None:
    assert Trial(IDLE, [[one()]], ["an honest client was refused: no"]).faults() == ["an honest client was refused: no"]


def test_the_table_tells_each_kind_and_all_rounds() -> None:
    waiting = Longest(0.9, 0.25)
    told = "above idle (40.0 MiB) after each of 2 rounds: 2.0 1.5; blocks/MiB in use: 500,000/60.0 500,000/60.0"
    table = Trial(IDLE, [[one("locks", waiting, peak=20, after=2)], [one("locks", after=1.5)]]).table()
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["locks", "0.25", "0.5", "20", "2.0", "1.5", "0"],
        ["all", "0.25", "20", *told.split()],
    ]


def test_only_a_wait_for_the_server_itself_is_a_fault() -> None:
    busy_machine = Longest().with_wait(2.0, machine_s=1.7)
    slow_server = busy_machine.with_wait(0.6, machine_s=0.05)

    assert faults([one("offsets", busy_machine, Longest())]) == []
    assert slow_server.wait_s == 2.0
    assert faults([one("offsets", Longest(), slow_server)]) == [
        "offsets: others waited 0.55 s, 0.05 over the limit of 0.50"
    ]
    assert faults([one("numbers", slow_server)]) == []


def test_a_process_that_shares_its_processor_waits_for_it() -> None:
    spin = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"
    with ExitStack() as ended:
        spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
        for process in spinning:
            ended.callback(process.wait)
            ended.callback(process.kill)
        for process in spinning:
            wait_until(partial(has_waited, process.pid), "a wait for the processor")


def has_waited(process_id: int) -> bool:
    """Return whether a process has waited for a processor for two hundredths of a second."""
    return processor_wait_s(process_id) > 0.02
