"""Two gateways and a controller of Apache RocketMQ 5.5.0: masters are paused for longer than they may be silent.

    python -m compat_tests.paused_masters [N]     pauses the master N times (3)

Stock Java producers, consumers and transactions work all the time. While a master is paused, further messages are put
into its sockets, with senders that wait for its answer: when it goes on, another one is the master, and whatever the
old one answers SEND_OK has to be in the new one's log, once. In the end both logs have to be equal.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat_tests import frames
from compat_tests.environment import remove_leftovers, start_engine, wait_until
from compat_tests.failovers import Pair, controller, running_pair, sending
from compat_tests.java_client import CLIENT_VERSIONS, java_client
from compat_tests.replica_faults.ending import stop_and_judge
from compat_tests.replica_faults.run import streams_of_a_pair
from compat_tests.soak.findings import Findings
from compat_tests.soak.load import Load
from compat_tests.test_replication import log_in, wait_for_equal_logs

LATE = 16
"""The messages that are put into the sockets of a paused master."""
ELECTED_S = 60.0
_ANSWERED_S = 60.0


def send_late(address: tuple[str, int], body: bytes) -> int | str:
    """Send a message; the code of the answer, or why there is none."""
    try:
        answer = frames.ask(address, sending("late", "late", body), timeout_s=_ANSWERED_S)
    except OSError as reason:
        return type(reason).__name__
    return "closed" if answer is None else answer.code


def pause_master(pair: Pair, number: int, acknowledged: list[bytes]) -> str:
    """Pause the master until another one is elected; what it answered when it went on."""
    old, new = pair.brokers
    before = pair.sync_state_set()
    bodies = [f"<late {number} {count}>".encode() for count in range(LATE)]
    os.kill(old.pid, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        with ThreadPoolExecutor(LATE) as senders:
            answers = [senders.submit(send_late, old.address, body) for body in bodies]
            wait_until(lambda: pair.sync_state_set() not in (before, []), "another master", timeout_s=ELECTED_S)
            wait_until(lambda: pair.send(new), "it takes messages", timeout_s=ELECTED_S)
            without = time.monotonic() - begun
            os.kill(old.pid, signal.SIGCONT)
            codes = [answer.result() for answer in answers]
    finally:
        os.kill(old.pid, signal.SIGCONT)
    acknowledged += [body for body, code in zip(bodies, codes, strict=True) if code == 0]
    pair.brokers.reverse()
    pair.wait_for_set()
    return f"{without:.1f} s without a master; the old one answered {dict(Counter(map(str, codes)))}"


def play(root: Path, times: int) -> None:
    findings = Findings()
    acknowledged: list[bytes] = []
    with (
        controller() as address,
        java_client(CLIENT_VERSIONS[-1]) as client,
        running_pair(root, address) as pair,
    ):
        assert pair.send(pair.brokers[0], 30)
        names = pair.names.nameserver
        load = Load(client, names, findings, tag="paused", longest_s=900, streams=streams_of_a_pair())
        load.start()
        load.wait_for_progress()
        for number in range(times):
            print(f"pause {number + 1}: {pause_master(pair, number, acknowledged)}", flush=True)
            load.wait_for_progress()
        plain, transactions = stop_and_judge(load)
        print(f"messages: {plain}\ntransactions: {transactions}\n{findings.sentences}", flush=True)
        wait_for_equal_logs(*(broker.data for broker in pair.brokers))
        log = log_in(pair.brokers[0].data)
        wrong = [body for body in acknowledged if log.count(body) != 1]
        assert not wrong, f"the old master acknowledged what the new one lacks: {wrong}"
        assert findings.is_clean
        print(f"logs equal; of the late messages {len(acknowledged)} were answered SEND_OK, lost 0", flush=True)


def main(times: int) -> None:
    start_engine()
    try:
        with tempfile.TemporaryDirectory() as root:
            play(Path(root), times)
    finally:
        remove_leftovers()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
