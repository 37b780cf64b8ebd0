"""One fault by kind. Afterwards nothing is cut, paused, full or slow; what is dead starts when the pair is healed."""

from __future__ import annotations

import threading
from collections.abc import Callable

from compat_tests.replica_faults.members import PairMember
from compat_tests.replica_faults.pair import BrokerPair
from compat_tests.replica_faults.plan import Round, Trouble

EVERYBODY = "0.0.0.0/0"
_LEAST_S = 0.5
_FULL_LEAST_S = 2.0
_FREE_BYTES = 4 * 1024 * 1024
_REFILLED_S = 0.25
_SPOILS_S = 3.0
_SLOWEST, _QUICKEST = 2, 30
"""Writes a second of a slow disk."""


def play(pair: BrokerPair, round_: Round) -> str:
    """Do it; what was done, in a few words."""
    member = pair.master if round_.is_master else pair.slave
    what = _PLAYS[round_.trouble](pair, member, round_)
    whom = (
        "" if round_.trouble in _OF_BOTH else " of the master" if member.role == pair.master.role else " of the slave"
    )
    return f"{round_.trouble}{whom}{what}"


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _kill(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    member.kill()
    # Some are back before anybody has noticed, some long after.
    pause(round_.lasts_s * round_.detail)
    member.start()
    return ""


def _kill_both(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    member.kill()
    pause(round_.detail)
    pair.other(member).kill()
    return ""


def _pause(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    member.pause()
    try:
        pause(_LEAST_S + round_.lasts_s)
    finally:
        member.go_on()
    return f" for {_LEAST_S + round_.lasts_s:.1f} s"


def _apart(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    other = pair.other(member).machine.address

    def cut() -> None:
        member.machine.hears_nothing_of(other)
        member.machine.says_nothing_to(other)

    return _dropped(member, round_, cut)


def _one_way(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    whom = pair.other(member).machine.address if round_.detail < 0.5 else EVERYBODY
    if round_.detail % 0.5 < 0.25:
        return ", hears nothing" + _dropped(member, round_, lambda: member.machine.hears_nothing_of(whom))
    return ", says nothing" + _dropped(member, round_, lambda: member.machine.says_nothing_to(whom))


def _isolated(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    member.machine.cut()
    try:
        pause(_LEAST_S + round_.lasts_s)
    finally:
        member.machine.mend()
    return f" for {_LEAST_S + round_.lasts_s:.1f} s"


def _dropped(member: PairMember, round_: Round, cut: Callable[[], None]) -> str:
    try:
        cut()
        pause(_LEAST_S + round_.lasts_s)
    finally:
        member.machine.drops_nothing()
    return f" for {_LEAST_S + round_.lasts_s:.1f} s"


def _disk_full(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    disk = pair.disks[member]
    leave = int(round_.detail * _FREE_BYTES)
    lasts_s = _FULL_LEAST_S + round_.lasts_s
    try:
        for _ in range(int(lasts_s / _REFILLED_S)):
            disk.fill(leave)
            pause(_REFILLED_S)
    finally:
        disk.empty()
    return f" for {lasts_s:.1f} s" + ("" if member.alive() else ", which ended")


def _disk_slow(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    disk = pair.disks[member]
    writes = int(_SLOWEST + round_.detail * (_QUICKEST - _SLOWEST))
    try:
        disk.slow(member.pid, writes)
        pause(_FULL_LEAST_S + round_.lasts_s)
    finally:
        disk.quick()
    return f", {writes} writes/s for {_FULL_LEAST_S + round_.lasts_s:.1f} s"


def _names(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    pair.names.kill()
    pause(round_.lasts_s)
    pair.names.start()
    return f", away for {round_.lasts_s:.1f} s"


def _lost_master(pair: BrokerPair, member: PairMember, round_: Round) -> str:
    """As the recipe for a lost master says; a tail that the new master lacks is a reason to begin with an empty one."""
    old, new = pair.master, pair.slave
    old.kill()
    pause(round_.lasts_s * round_.detail)
    new.kill() if round_.detail < 0.5 else new.stop()
    pair.swap()
    new.start()
    if not pair.has_lost_tail(old):
        old.start()
        return ", the old one had no tail"
    pair.lost_tails += 1
    # It may try first: it must not be counted, nor add anything to its tail.
    old.start()
    pause(_SPOILS_S)
    pair.empty_the_slave()
    return ", the old one had a tail and was emptied"


_PLAYS: dict[Trouble, Callable[[BrokerPair, PairMember, Round], str]] = {
    Trouble.KILL: _kill,
    Trouble.KILL_BOTH: _kill_both,
    Trouble.PAUSE: _pause,
    Trouble.APART: _apart,
    Trouble.ONE_WAY: _one_way,
    Trouble.ISOLATED: _isolated,
    Trouble.DISK_FULL: _disk_full,
    Trouble.DISK_SLOW: _disk_slow,
    Trouble.NAMES: _names,
    Trouble.LOST_MASTER: _lost_master,
}
_OF_BOTH = (Trouble.KILL_BOTH, Trouble.NAMES, Trouble.LOST_MASTER)
