"""One round by kind of fault. Each round ends with a broker that serves on a healthy disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.soak.broker import SoakedBroker
from compat_tests.soak.findings import Findings, Wrong
from compat_tests.soak.load import Load
from compat_tests.soak.plan import Fault, Moment, Round
from compat_tests.soak.small_disk import SmallDisk

_POLL_S = 0.05
ROLL_S = 10.0
FIRE_S = 8.0
REFUSAL_S = 20.0
QUIET_S = 2.0
ANSWERS_UNDER_WAY_S = 1.0
SERVICE_NOT_AVAILABLE = "14"
FULL_WORDS = ("disk is full", "disk full", "No space left")


@dataclass(slots=True)
class Scene:
    """Everything a round works with."""

    broker: SoakedBroker
    load: Load
    findings: Findings
    disk: SmallDisk | None
    stop_s: float
    """How long a paused broker stays paused."""
    wait_for_consumers: bool = True
    """Clients before 5.0 do not notice a closed connection while they pull: they go on after 30 s, or later rounds."""
    deletable: list[Path] = field(default_factory=list)
    """Log files whose messages everybody has read."""


def play(scene: Scene, round_: Round) -> str:
    """Wait for the moment, do it, and have the broker serve again; what was done, in a few words."""
    return _PLAYS[round_.fault](scene, round_)


def wait_for_progress(scene: Scene) -> str:
    """Until every sender was acknowledged and every consumer was given something more; the last to get on."""
    return scene.load.wait_for_progress(with_consumers=scene.wait_for_consumers)


# -- the faults -----------------------------------------------------------------------------------------------


def _kill(scene: Scene, round_: Round) -> str:
    broker = scene.broker
    _pause(round_.delay_s)
    if round_.moment is Moment.ROLL:
        files = broker.made_files()
        _until(lambda: broker.made_files() > files, ROLL_S, poll_s=0.002)
        _pause(round_.second_delay * 0.02)
    elif round_.moment is Moment.RETENTION:
        broker.age(scene.deletable)
        _pause(round_.second_delay * 0.25)
    broker.kill()
    if round_.moment is Moment.START:
        broker.launch_and_kill(round_.second_delay * max(broker.start_times_s[-1], 0.1))
    broker.start()
    return f"during {round_.moment}"


def _stop(scene: Scene, round_: Round) -> str:
    """Clients time out, come back, and nothing is stored twice."""
    _pause(round_.delay_s)
    scene.broker.pause()
    try:
        _pause(scene.stop_s)
    finally:
        scene.broker.go_on()
    return f"for {scene.stop_s:g} s"


def _disk_full(scene: Scene, round_: Round) -> str:
    """Sends are refused and say why; when there is space they are taken again, without a restart."""
    broker, load, disk = scene.broker, scene.load, scene.disk
    assert disk is not None, "planned only with a small disk"
    _pause(round_.delay_s)
    load.look()
    before = load.refusals[SERVICE_NOT_AVAILABLE]
    load.refusal_texts.pop(SERVICE_NOT_AVAILABLE, None)  # of an earlier round, for another reason
    leave = int(round_.second_delay * 4 * 1024 * 1024) if round_.moment is not Moment.LOAD else 0
    try:
        disk.fill(leave)

        def refused() -> bool:
            disk.fill(leave if leave < 1024 * 1024 else 0)
            load.look()
            return load.refusals[SERVICE_NOT_AVAILABLE] > before

        if not _until(refused, REFUSAL_S):
            scene.findings.add(Wrong.UNCLEAR, f"no send was refused with code 14 on a full disk: {load.refusal_texts}")
        text = load.refusal_texts.get(SERVICE_NOT_AVAILABLE, "")
        if not any(word in text for word in FULL_WORDS):
            scene.findings.add(Wrong.UNCLEAR, f"a send refused on a full disk was told: {text}")
        _pause(round_.delay_s)
        if round_.kills_inside:
            broker.kill()
            _start_on_full_disk(scene)
    finally:
        disk.empty()
    if broker.alive():
        return "and emptied"
    broker.start()
    return "and killed"


def _start_on_full_disk(scene: Scene) -> None:
    """Start a broker on a full disk: it serves and refuses sends, or refuses to start, and gives the reason."""
    broker = scene.broker
    try:
        broker.start()
    except AssertionError as failure:
        broker.kill()
        if "Error:" not in str(failure):
            scene.findings.add(Wrong.UNCLEAR, f"the start on a full disk failed with {str(failure)[-400:]}")


def _eio(scene: Scene, round_: Round) -> str:
    """After a failed write of the log nothing may be acknowledged; what was acknowledged before must be there."""
    _pause(round_.delay_s)
    what = _fail_disk(scene, round_)
    scene.broker.kill()
    scene.broker.start()
    return what


def _read_only(scene: Scene, round_: Round) -> str:
    """The disk turns read-only under way; then the directory is read-only at the start."""
    _pause(round_.delay_s)
    what = _fail_disk(scene, round_)
    scene.broker.kill()
    disk = scene.disk
    assert disk is not None, "planned only with a small disk"
    disk.set_read_only(True)
    try:
        code, said = scene.broker.refused_start()
    finally:
        disk.set_read_only(False)
    if code == 0 or not said.startswith("Error:") or str(scene.broker.data) not in said:
        scene.findings.add(Wrong.UNCLEAR, f"the start on a read-only directory ended with {code}: {said!r}")
    scene.broker.start()
    return what


def _fail_disk(scene: Scene, round_: Round) -> str:
    broker, load = scene.broker, scene.load
    broker.fail_disk(round_.order)
    if not _until(lambda: broker.fired() is not None, FIRE_S):
        return f"no {'/'.join(round_.order.operations)} to fail"  # so many did not come: a kill like others
    fired = broker.fired()
    assert fired is not None, "it was there a moment ago"
    what = f"at {fired.operation} of {'/'.join(Path(fired.path).parts[-4:])}"
    _pause(ANSWERS_UNDER_WAY_S)
    if not fired.is_log and not round_.order.lasting:
        _pause(QUIET_S)  # derived files: the log may go on, and the next flush has time to believe the wrong thing
        return what
    load.look()
    then = dict(load.sent_totals)
    _pause(QUIET_S)
    load.look()
    for name, total in load.sent_totals.items():
        if total > then[name]:
            scene.findings.add(Wrong.UNSAFE, f"{total - then[name]} sends of {name}, {round_.order.error} {what}")
    return what


_PLAYS: dict[Fault, Callable[[Scene, Round], str]] = {
    Fault.KILL: _kill,
    Fault.STOP: _stop,
    Fault.DISK_FULL: _disk_full,
    Fault.READ_ONLY: _read_only,
    Fault.EIO: _eio,
}


def _until(condition: Callable[[], bool], timeout_s: float, *, poll_s: float = _POLL_S) -> bool:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        _pause(poll_s)
    return True


def _pause(seconds: float) -> None:
    time.sleep(seconds)  # noqa: TID251 - other processes are under way
