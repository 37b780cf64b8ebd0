"""One soak from the first message to the verdict: rounds of load and faults, then everything is read once more."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.java_client import JavaClient
from compat_tests.soak.broker import SoakedBroker
from compat_tests.soak.findings import Findings, Wrong
from compat_tests.soak.load import Load, NoProgress
from compat_tests.soak.plan import Fault, Plan
from compat_tests.soak.progress import Progress
from compat_tests.soak.rounds import Scene, play, wait_for_progress
from compat_tests.soak.small_disk import SmallDisk

_NEEDS_DISK = frozenset({Fault.DISK_FULL, Fault.READ_ONLY})
_NEEDS_FAILING = frozenset({Fault.READ_ONLY, Fault.EIO})
_DRAIN_S = 60.0
_SLACK_S = 900
_LONG_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted run. It ends after ``rounds``, or when ``minutes`` are over, whichever comes first."""

    seed: int
    faults: Sequence[Fault]
    directory: Path
    rounds: int | None = None
    minutes: float | None = None
    stop_s: float = 30.0
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def longest_s(self) -> int:
        """Java verbs end by themselves after this; a round takes a minute at the very most."""
        return int((self.minutes or 0) * 60) + 60 * (self.rounds or 0) + _SLACK_S


@dataclass(slots=True)
class Report:
    """The work and the findings of a soak."""

    wanted: Wanted
    findings: Findings
    broker: SoakedBroker
    load: Load
    rounds: Counter[Fault] = field(default_factory=Counter)
    log_files_deleted: int = 0
    seconds: float = 0.0


def soak(client: JavaClient, wanted: Wanted, say: Callable[[str], None]) -> Report:
    """Run one. When something is wrong the store stays in ``wanted.directory``.

    :raises NotPossible: a fault needs what this machine does not allow.
    """
    begun = time.monotonic()
    wanted.directory.mkdir(parents=True)
    with ExitStack() as stack:
        disk = None
        if _NEEDS_DISK & set(wanted.faults):
            disk = SmallDisk(wanted.directory / "disk")
            disk.mount()
            stack.callback(disk.unmount)
        data = wanted.directory / "data" if disk is None else disk.data
        failing = bool(_NEEDS_FAILING & set(wanted.faults))
        broker = SoakedBroker(data, wanted.settings, failing=failing, beside=wanted.directory)
        stack.callback(broker.kill)
        broker.start()
        findings = Findings()
        tag = f"s{wanted.seed}p{broker.broker_port}"
        load = Load(client, broker.nameserver, findings, tag=tag, longest_s=wanted.longest_s)
        report = Report(wanted, findings, broker, load)
        scene = Scene(broker, load, findings, disk, wanted.stop_s, not client.version.startswith("4."))
        try:
            _run(report, scene, Progress(broker, load, findings), begun, say)
        except (NoProgress, AssertionError, OSError, subprocess.SubprocessError) as failure:
            findings.add(Wrong.STUCK, str(failure) or repr(failure))
            _read_what_is_there(scene)
            load.abandon()
        if disk is not None and not findings.is_clean:
            broker.kill()
            disk.copy_data(wanted.directory / "data")
    report.seconds = time.monotonic() - begun
    return report


def _run(report: Report, scene: Scene, progress: Progress, begun: float, say: Callable[[str], None]) -> None:
    wanted, load = report.wanted, scene.load
    plan = Plan(wanted.seed, wanted.faults)
    load.start()
    wait_for_progress(scene)
    count = 0
    while not _is_over(wanted, count, begun):
        round_ = plan.next_round()
        round_begun = time.monotonic()
        what = play(scene, round_)
        waited = time.monotonic()
        last = wait_for_progress(scene)
        waited = time.monotonic() - waited
        if waited > _LONG_WAIT_S:
            what = f"{what}; waited {waited:.0f} s for {last}"
        progress.put_down()
        scene.deletable = progress.deletable
        count += 1
        report.rounds[round_.fault] += 1
        report.log_files_deleted = progress.deleted_files
        say(_line(report, count, f"{round_.fault} {what}", time.monotonic() - round_begun))
        if report.findings.is_serious:
            scene.broker.kill()
            load.abandon()
            return
    _last_reading(scene, progress)


def _read_what_is_there(scene: Scene) -> None:
    """Read what is there: if clients do not get on, the reason is mostly a missing message."""
    if not scene.broker.alive():
        return
    try:
        scene.load.look()
        scene.load.read_all()
    except (AssertionError, OSError) as failure:
        scene.findings.add(Wrong.STUCK, f"nor could the queues be read: {failure}")


def _is_over(wanted: Wanted, rounds: int, begun: float) -> bool:
    if wanted.rounds is not None and rounds >= wanted.rounds:
        return True
    return wanted.minutes is not None and time.monotonic() - begun > wanted.minutes * 60


def _last_reading(scene: Scene, progress: Progress) -> None:
    """The clients come to an end; after one more kill everything is read from the beginning by somebody new."""
    load, broker = scene.load, scene.broker
    load.stop_sending()
    end = time.monotonic() + _DRAIN_S
    while True:
        progress.put_down()
        if load.is_drained() or time.monotonic() > end:
            break
    progress.wait_for_groups()
    load.stop_consuming()
    load.look()
    broker.kill()
    broker.start()
    load.read_all(fresh=True)
    for account in load.accounts.values():
        account.settle()
    broker.stop()


def _line(report: Report, count: int, what: str, seconds: float) -> str:
    load, wanted = report.load, report.wanted
    of = f"/{wanted.rounds}" if wanted.rounds else ""
    wrong = ", ".join(f"{n} {kind}" for kind, n in report.findings.counts.items()) or "nothing wrong"
    restart = f"restart {report.broker.start_times_s[-1]:.2f} s"
    return (
        f"round {count}{of} {seconds:5.1f} s  {what}: acknowledged {load.plain_acknowledged():,}, "
        f"committed {load.accounts['transactions'].committed:,}, {restart}; {wrong}"
    )
