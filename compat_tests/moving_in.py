"""A master and its slave of Apache RocketMQ 5.5.0 become two gateways, one after the other, and go back.

    python -m compat_tests.moving_in --megabytes 1000

Needs root: each broker, and the name server, is on a machine of its own (a network namespace). First the brokers take
so many megabytes, and half messages whose producer goes away. Then stock Java clients send, commit, roll back and
consume all the while:

    slave     Apache RocketMQ's slave is stopped, and a gateway takes its place, with an empty directory
    switch    the master is only read until its slave has everything; it stops, and the slave is promoted
    slave     the old master's directory is given to a gateway, which is the slave
    names     the name server is replaced at its address

and the same back (docs/moving.md). After each way everything is read, and half of the half messages get their outcomes.
A message answered SEND_OK, or committed, is found once and at its offset; no offset of a group goes back; both logs are
equal. The exit code is 1 if anything of this is wrong. Apache RocketMQ delivers some transactions twice
(docs/transactions/compared.md): those are counted, and not wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests import environment
from compat_tests.environment import Patience
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient, java_client
from compat_tests.peers import gateway_command
from compat_tests.replica_faults.ending import stop_and_compare, stop_and_judge
from compat_tests.replica_faults.logs import log_begin, log_end
from compat_tests.replica_faults.members import BROKER_NAME, GroupPlace, Kind, PairMember, Role
from compat_tests.replica_faults.offsets import WITNESS, fallen_back, offsets_now, seconds_to_copy
from compat_tests.replica_faults.pair import BrokerPair
from compat_tests.replica_faults.run import PairFindings, patiently, streams_of_a_pair
from compat_tests.replica_faults.verdict import Verdict, judge
from compat_tests.soak.findings import Wrong
from compat_tests.soak.load import Load, entries_of
from compat_tests.soak.streams import commits

BODY_BYTES = 4096
BATCH = 64
HALVES = 99
"""Of each of the two groups whose producers go away; the one that comes back sends one more, which it commits."""
QUEUES = 4
GETS_ON_S = 300.0
OFFSETS_S = 90.0
"""Apache RocketMQ's slave copies offsets once a minute."""
LONGEST_S = 3600


@dataclass(slots=True)
class Moved:
    """The account of a run."""

    findings: PairFindings = field(default_factory=lambda: PairFindings(excuses=True))
    lines: list[str] = field(default_factory=list)

    def expects(self, what: str, verdict: Verdict, *, twice_is_wrong: bool = True) -> None:
        """Note what was found of some messages; nothing may be lost, moved, doubled or against its outcome."""
        self.lines.append(
            f"{what}: {verdict.acknowledged:,} acknowledged, lost {verdict.lost}, moved {verdict.moved}, "
            f"doubled {verdict.doubled}, with the other outcome {verdict.flipped}"
        )
        wrong = {Wrong.LOST: verdict.lost, Wrong.CHANGED: verdict.moved, Wrong.FLIPPED: verdict.flipped}
        if twice_is_wrong:
            wrong[Wrong.DOUBLED] = verdict.doubled
        for kind, count in wrong.items():
            if count:
                self.findings.add(kind, f"{what}: {count}")


class Moving:
    """A pair with its clients, which moves in and out.

    :param say: is told each step.
    """

    def __init__(self, client: JavaClient, pair: BrokerPair, moved: Moved, say: Callable[[str], None]) -> None:
        self._client = client
        self._pair = pair
        self._moved = moved
        self._say = say
        self._tag = f"m{int(time.monotonic())}"
        self._told: Mapping[str, list[tuple[int, int, int]]] = {}
        self._readings = 0
        self.load = Load(
            client,
            pair.names.nameserver,
            moved.findings,
            tag=self._tag,
            longest_s=LONGEST_S,
            streams=streams_of_a_pair(),
        )

    # -- what is there before -----------------------------------------------------------------------------------

    def fill(self, megabytes: int) -> None:
        """Send so much, and two groups of half messages; then let the clients begin."""
        begun = time.monotonic()
        topic = self._new_topic("fill")
        count = megabytes * 1024 * 1024 // BODY_BYTES
        sent = self._client.run(
            "send-batch",
            **self._names(topic),
            ledger=topic,
            count=count,
            size=BODY_BYTES,
            batch=BATCH,
            retries=0,
            timeout_s=LONGEST_S,
        )
        assert sent["acknowledged"] > count * 0.9, str(sent)
        told = self._client.run("ledger", names=topic).json(topic)["entries"]
        self._told = {topic: list(entries_of(told))}
        for name in (Kind.OURS, Kind.JAVA):
            self._run_transactions(self._new_topic(name), count=HALVES, all_unknown=True, no_checks=True)
        self._pair.master.make_group(WITNESS)
        self._say(f"filled with {megabytes} MB in {time.monotonic() - begun:.0f} s")
        self.load.start()
        self.load.wait_for_progress(timeout_s=GETS_ON_S)

    def _new_topic(self, name: str) -> str:
        topic = f"moving_{self._tag}_{name}"
        made = self._client.run("create-topic", ns=self._pair.names.nameserver, topic=topic, queues=QUEUES)
        assert made["queues"] == QUEUES, str(made)
        return topic

    def _names(self, topic: str) -> dict[str, str]:
        return {"ns": self._pair.names.nameserver, "topic": topic, "run": topic}

    def _run_transactions(self, topic: str, **options: object) -> int:
        asked = {"group": f"pg_{topic}", "wait_checks_s": 0, "timeout_s": 600, **options}
        done = self._client.run("transact", **self._names(topic), **asked)  # type: ignore[arg-type]
        assert (done["acknowledged"], done["failed"]) == (options["count"], 0), str(done)
        return done["checks"]

    # -- the steps ----------------------------------------------------------------------------------------------

    def replace_slave(self, kind: Kind, *, is_emptied: bool) -> None:
        """Give the slave's place to the other program, and wait until it has everything."""
        begun = time.monotonic()
        pair = self._pair
        offsets = patiently(lambda: offsets_now(self.load, pair.master))
        pair.slave.stop()
        slave = pair.replace_program(pair.slave, kind)
        if is_emptied:
            shutil.rmtree(slave.data)
            pair.comparison.begin_again()
        slave.start()
        started_s = time.monotonic() - begun
        pair.wait_until_listed()
        self.load.wait_for_progress(timeout_s=GETS_ON_S)
        self._compare(offsets, pair.master)
        where = "an empty directory" if is_emptied else "the directory that was there"
        self._say(
            f"slave: {kind}, with {where}: started after {started_s:.1f} s, "
            f"senders are answered SEND_OK again after {time.monotonic() - begun:.1f} s"
        )

    def switch(self) -> None:
        """Make the slave the master; what was the master stays stopped until a program takes its place."""
        begun = time.monotonic()
        pair = self._pair
        pair.drain()
        offsets = {place: offset for place, offset in pair.master.offsets().items() if self._tag in place[0]}
        copied_s = seconds_to_copy(offsets, pair.slave, OFFSETS_S)
        self._promote() if pair.slave.kind is Kind.OURS else pair.exchange()
        self._look_for_steps_back(offsets, pair.master)
        self._say(
            f"switch: {pair.master.kind} is the master after {time.monotonic() - begun:.1f} s, "
            f"of which its offsets took {copied_s:.1f} s"
        )

    def _promote(self) -> None:
        """Stop the master, and make its slave, a gateway, the master while it runs."""
        self._pair.master.stop()
        command = [*gateway_command(), "failover", "promote", BROKER_NAME, "-n", self._pair.names.nameserver]
        command += ["--id", "1", "--role", Role.MASTER, "--lost", "--yes"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        end = log_end(self._pair.master.data)
        assert f"the log of this slave ends at {end}\n" in done.stdout, f"{end}: {done.stdout}"
        self._pair.swap()

    def replace_names(self, kind: Kind) -> None:
        """Give the name server's address to the other program."""
        begun = time.monotonic()
        self._pair.replace_name_server(kind)
        self._pair.wait_until_listed()
        self.load.wait_for_progress(timeout_s=GETS_ON_S)
        self._say(f"names: {kind}, and both brokers are listed after {time.monotonic() - begun:.1f} s")

    def move_to(self, kind: Kind) -> None:
        """Make both brokers and the name server this program."""
        self.replace_slave(kind, is_emptied=True)
        self.switch()
        self.replace_slave(kind, is_emptied=False)
        self.replace_names(kind)
        self._settle(kind)
        self._read_again(f"moved to {kind}")

    # -- the account --------------------------------------------------------------------------------------------

    def _compare(self, offsets: Mapping[GroupPlace, int], master: PairMember) -> None:
        patiently(self.load.read_all)
        self._look_for_steps_back(offsets, master)
        difference = patiently(self._pair.difference)
        begins = [log_begin(member.data) for member in self._pair.members]
        if begins[0] != begins[1]:
            self._moved.findings.add(Wrong.LOST, f"the logs begin at {begins}")
        if difference is not None:
            self._moved.findings.add(Wrong.CHANGED, f"the logs differ from byte {difference} on")

    def _look_for_steps_back(self, offsets: Mapping[GroupPlace, int], master: PairMember) -> None:
        for sentence in patiently(lambda: fallen_back(offsets, master)):
            self._moved.findings.add(Wrong.BACKWARDS, sentence)

    def _settle(self, kind: Kind) -> None:
        """Let the producer of half messages come back, which is asked for the outcomes."""
        topic = f"moving_{self._tag}_{kind}"
        checks = self._run_transactions(topic, count=1, first=HALVES, expect_checks=HALVES, wait_checks_s=240)
        told = [(number, -1, -1) for number in range(HALVES + 1)]
        committed = sum(map(commits, range(HALVES + 1)))
        limit = Patience(GETS_ON_S)
        while len(found := self._found(topic)) < committed and not limit.is_over:
            pass
        self._moved.expects(
            f"half messages that waited, settled by {kind} in {checks} checks",
            judge(told, found, lambda _: 1, commits),
            twice_is_wrong=kind is Kind.OURS,
        )

    def _found(self, topic: str) -> list[tuple[int, int, int]]:
        self._readings += 1
        answer = self._client.run(
            "read-queues",
            ns=self._pair.names.nameserver,
            group=f"r_{topic}_{self._readings}",
            topics=topic,
            runs=topic,
            timeout_s=LONGEST_S,
        )
        for kind in ("corrupt", "strangers"):
            if answer[kind]:
                self._moved.findings.add(Wrong.CORRUPT, f"{answer[kind]} {kind} in {topic}")
        return list(entries_of(answer.json("entries")[topic]))

    def _read_again(self, when: str) -> None:
        for topic, told in self._told.items():
            self._moved.expects(f"{when}, stored before", judge(told, self._found(topic), lambda _: 1))

    def end(self) -> None:
        """Stop the clients, and judge all that they were told."""
        plain, transactions = stop_and_judge(self.load)
        self._moved.expects("sent meanwhile", plain)
        self._moved.expects("transactions meanwhile", transactions, twice_is_wrong=False)
        refused = ", ".join(f"{count:,} × {code}" for code, count in sorted(self.load.refusals.items()))
        self._moved.lines.append(f"sends that were not answered SEND_OK: {refused or 'none'}")
        stop_and_compare(self._pair, self._moved.findings)


def move(client: JavaClient, directory: Path, megabytes: int, say: Callable[[str], None]) -> Moved:
    """Move a new pair in and out; the account."""
    moved = Moved()
    with BrokerPair((Kind.JAVA, Kind.JAVA), directory, has_disks=False) as pair:
        moving = Moving(client, pair, moved, say)
        try:
            moving.fill(megabytes)
            for kind in (Kind.OURS, Kind.JAVA):
                moving.move_to(kind)
            moving.end()
        finally:
            moving.load.abandon()
    return moved


def main(arguments: Sequence[str] | None = None) -> int:
    """Move in and out; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.moving_in")
    parser.add_argument("--megabytes", type=int, default=1000, help="stored before (default: 1000)")
    parser.add_argument("--directory", type=Path, default=Path("var/moving-in"), help="where stores are made")
    options = parser.parse_args(arguments)
    directory = options.directory.absolute() / str(os.getpid())
    environment.start_engine()
    environment.remove_leftovers()
    with java_client(CLIENT_VERSIONS[-1]) as client:
        moved = move(client, directory, options.megabytes, lambda line: print(line, flush=True))
    print("\n".join(["", *moved.lines, *moved.findings.sentences]))
    if moved.findings.is_clean:
        shutil.rmtree(directory)
        return 0
    print(f"kept for a look: {directory}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
