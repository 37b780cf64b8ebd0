"""One run from the first message to the verdict: rounds of faults and healing under load, then a last reading."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from compat_tests.environment import Patience, wait_until
from compat_tests.java_client import JavaClient
from compat_tests.peers import gateway_command
from compat_tests.replica_faults.ending import stop_and_compare, stop_and_judge
from compat_tests.replica_faults.members import SETTINGS, Kind
from compat_tests.replica_faults.offsets import WITNESS, fallen_back, offsets_now, seconds_to_copy
from compat_tests.replica_faults.pair import BrokerPair
from compat_tests.replica_faults.plan import Round, Trouble, TroublePlan
from compat_tests.replica_faults.play import pause, play
from compat_tests.replica_faults.verdict import Verdict
from compat_tests.soak.findings import Findings, Wrong
from compat_tests.soak.load import Load, NoProgress
from compat_tests.soak.streams import STREAMS, Stream

Read = TypeVar("Read")
_FAILURES = (NoProgress, AssertionError, OSError, subprocess.SubprocessError)
_WRITTEN_WITH = ("mappedFileSizeCommitLog", "maxHashSlotNum", "maxIndexNum", "messageDelayLevel")
_SLACK_S = 3600
_ROUND_S = 300
"""Clients end by themselves after so long: only if nobody has told them to."""
_READS_S = 300.0
_READ_AGAIN_S = 2.0
_OFFSETS_S = 10.0
_HEALS_S = 240.0
PACES = {"sync": 20, "retried": 30, "batch": 100, "transactions": 30}
"""The streams of a run, with milliseconds between the sends of a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRun:
    """The wanted run. It ends after ``faults``, or when ``minutes`` are over, whichever comes first."""

    kinds: tuple[Kind, Kind]
    seed: int
    directory: Path
    faults: int
    minutes: float | None = None
    troubles: Sequence[Trouble] = tuple(Trouble)
    goes_on: bool = False
    """Whether a run goes on when something is wrong: then all of it is counted."""


class PairFindings(Findings):
    """The findings of a pair.

    :param excuses: whether Apache RocketMQ is a master. It delivers some transactions twice: it applies a decision once
        more that it has not recorded yet when it checks (T1 and T3 of docs/transactions/compared.md). They are counted.
    """

    def __init__(self, *, excuses: bool) -> None:
        super().__init__()
        self._excuses = excuses

    def add(self, kind: Wrong, sentence: str) -> None:
        if not (self._excuses and kind is Wrong.DOUBLED and sentence.startswith("transactions:")):
            super().add(kind, sentence)


@dataclass(slots=True)
class Outcome:
    """The work and the findings of a run."""

    wanted: WantedRun
    findings: Findings
    faults: Counter[Trouble] = field(default_factory=Counter)
    healed_s: list[float] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    transactions: Verdict = field(default_factory=Verdict)
    copied_s: list[float] = field(default_factory=list)
    """Seconds until a slave of ours had committed offsets, before each fault."""
    offsets_back: int = 0
    unequal_logs: int = 0
    emptied: int = 0
    lost_tails: int = 0
    ended_by_themselves: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def streams_of_a_pair() -> list[Stream]:
    """Return the streams of the clients of a pair."""
    return [
        replace(stream, options={**stream.options, "pause_ms": PACES[stream.name]})
        for stream in STREAMS
        if stream.name in PACES
    ]


def run_faults(client: JavaClient, wanted: WantedRun, say: Callable[[str], None]) -> Outcome:
    """Run one.

    :raises NotPossible: the machine does not allow a fault.
    """
    outcome = Outcome(wanted, PairFindings(excuses=wanted.kinds[0] is Kind.JAVA))
    begun = time.monotonic()
    with BrokerPair(wanted.kinds, wanted.directory) as pair:
        longest_s = int(wanted.minutes * 60 if wanted.minutes else wanted.faults * _ROUND_S) + _SLACK_S
        tag = f"f{wanted.seed}t{int(begun)}"
        load = Load(
            client, pair.names.nameserver, outcome.findings, tag=tag, longest_s=longest_s, streams=streams_of_a_pair()
        )
        run = _Run(outcome, pair, load)
        try:
            run.go(begun, say)
        except _FAILURES as failure:
            outcome.findings.add(Wrong.STUCK, str(failure) or repr(failure))
            run.end_all_the_same()
        if not outcome.findings.is_clean:
            pair.keep_stores()
        outcome.emptied, outcome.lost_tails = pair.emptied, pair.lost_tails
        outcome.refusals = load.refusals
    outcome.seconds = time.monotonic() - begun
    return outcome


def patiently(read: Callable[[], Read]) -> Read:
    """Read what a healed pair has; again when a machine that is busy has let a client's time run out."""
    limit = Patience(_READS_S)
    while True:
        try:
            return read()
        except (AssertionError, OSError):
            if limit.is_over:
                raise
            pause(_READ_AGAIN_S)


class _Run:
    def __init__(self, outcome: Outcome, pair: BrokerPair, load: Load) -> None:
        self._outcome = outcome
        self._pair = pair
        self._load = load

    def go(self, begun: float, say: Callable[[str], None]) -> None:
        wanted, outcome = self._outcome.wanted, self._outcome
        plan = TroublePlan(wanted.seed, wanted.troubles)
        self._pair.master.make_group(WITNESS)
        self._load.start()
        self._load.wait_for_progress(timeout_s=_HEALS_S)
        # Apache RocketMQ's slave copies topics once a minute, and serves nobody who wants one that it lacks.
        topics = {self._load.topic(stream) for stream in self._load.streams}
        wait_until(lambda: topics <= self._pair.slave.topics(), "topics", timeout_s=_HEALS_S, is_patient=True)
        while outcome.faults.total() < wanted.faults and not self._is_late(begun):
            round_ = plan.next_round()
            what, healed_s = self._round(round_)
            outcome.faults[round_.trouble] += 1
            outcome.healed_s.append(healed_s)
            say(self._line(what, healed_s))
            if outcome.findings.is_serious and not wanted.goes_on:
                self._load.abandon()
                return
        self._end()

    def _is_late(self, begun: float) -> bool:
        minutes = self._outcome.wanted.minutes
        return minutes is not None and time.monotonic() - begun > minutes * 60

    def _round(self, round_: Round) -> tuple[str, float]:
        offsets = patiently(lambda: offsets_now(self._load, self._pair.master))
        if self._pair.slave.kind is Kind.OURS:  # Apache RocketMQ's takes up to a minute
            self._outcome.copied_s.append(seconds_to_copy(offsets, self._pair.slave, _OFFSETS_S))
        pause(round_.before_s)
        what = play(self._pair, round_)
        begun = time.monotonic()
        self._heal()
        healed_s = time.monotonic() - begun
        patiently(self._load.read_all)
        for sentence in patiently(lambda: fallen_back(offsets, self._pair.master)):
            self._outcome.offsets_back += 1
            self._outcome.findings.add(Wrong.BACKWARDS, sentence)
        self._compare_logs()
        if tuple(member.kind for member in self._pair.members) != self._outcome.wanted.kinds:
            # The pair stays what it is called: each of its faults meets the same roles.
            self._pair.switch()
            if self._pair.has_lost_tail(self._pair.slave):
                self._pair.empty_the_slave()
            self._heal()
        return what, healed_s

    def _heal(self) -> None:
        """Until both serve and every client gets on; otherwise the slave begins with an empty directory."""
        pair, outcome = self._pair, self._outcome
        outcome.ended_by_themselves += len(pair.start_what_is_dead())
        pair.wait_until_listed()
        try:
            self._load.wait_for_progress(timeout_s=_HEALS_S)
        except NoProgress as reason:
            outcome.findings.add(Wrong.STUCK, f"the pair did not heal by itself: {reason}")
            if not outcome.wanted.goes_on:
                raise
            pair.empty_the_slave()
            pair.wait_until_listed()
            self._load.wait_for_progress(timeout_s=_HEALS_S)

    def _compare_logs(self) -> None:
        difference = patiently(self._pair.difference)
        if difference is None:
            return
        self._outcome.unequal_logs += 1
        self._outcome.findings.add(Wrong.CHANGED, f"the logs differ from byte {difference} on")
        if self._outcome.wanted.goes_on:
            self._pair.empty_the_slave()
            self._heal()

    def end_all_the_same(self) -> None:
        """Judge what is stored although a step has failed: a machine that is too busy is no loss."""
        if not self._load.sent_totals:  # nobody has sent anything yet
            self._load.abandon()
            return
        try:
            if self._pair.has_lost_tail(self._pair.slave):  # of a fault that was broken off
                self._pair.empty_the_slave()
            self._heal()
            self._end()
        except _FAILURES as failure:
            self._outcome.findings.add(Wrong.STUCK, f"nor could it be judged: {failure}")
            self._load.abandon()

    def _end(self) -> None:
        load, pair, outcome = self._load, self._pair, self._outcome
        outcome.verdict, outcome.transactions = stop_and_judge(load)
        self._compare_logs()
        outcome.unequal_logs += not stop_and_compare(pair, outcome.findings)
        for member in pair.members:
            if member.kind is Kind.OURS:
                self._verify(member.data)

    def _verify(self, data: Path) -> None:
        command = [*gateway_command(), "store", "verify", str(data)]
        for key in _WRITTEN_WITH:
            command += ["--set", f"{key}={SETTINGS[key]}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            self._outcome.findings.add(Wrong.CORRUPT, f"store verify: {done.stdout[-500:]}{done.stderr[-500:]}")

    def _line(self, what: str, healed_s: float) -> str:
        outcome, load = self._outcome, self._load
        committed = load.accounts["transactions"].committed
        wrong = ", ".join(f"{n} {kind}" for kind, n in outcome.findings.counts.items()) or "nothing wrong"
        return (
            f"fault {outcome.faults.total()}/{outcome.wanted.faults} {what}: healed after {healed_s:.1f} s; "
            f"acknowledged {load.plain_acknowledged():,}, committed {committed:,}; {wrong}"
        )
