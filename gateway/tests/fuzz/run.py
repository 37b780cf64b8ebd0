"""A run: a server, the honest clients beside it, the attack, and the verdict on all of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from gateway.client.testing.server import GatewayServer
from gateway.tests.fuzz.accounts.canary import Canary, accounts_wrong, audit_wrong, secrets_in
from gateway.tests.fuzz.accounts.changing import Changing
from gateway.tests.fuzz.accounts.judge import Judge
from gateway.tests.fuzz.accounts.party import Kind, Member, file_of, party, settings
from gateway.tests.fuzz.accounts.signing import Signing
from gateway.tests.fuzz.attack import Attack
from gateway.tests.fuzz.honest import Report
from gateway.tests.fuzz.journal import Entry, replay, save, shrink
from gateway.tests.fuzz.requests import names
from gateway.tests.fuzz.requests.grammar import Grammar, Server
from gateway.tests.fuzz.verdict import MAX_SOCKETS_LEFT, Limits, table, wrong
from gateway.tests.fuzz.watch import WRONG_LINE, Watched, is_compiled, taken_by
from wire.compiled import IS_COMPILED

ROOT: Final = Path(__file__).parents[3]
ACCELERATED: Final = ROOT if IS_COMPILED else ROOT / "build" / "accelerated"
"""Where the compiled packages are; in their own tree when these tests run there."""
SETTINGS: Final[Mapping[str, str]] = {
    "brokerName": names.BROKER,
    "flushDiskType": "SYNC_FLUSH",
    "mappedFileSizeCommitLog": str(16 << 20),
    "messageDelayLevel": "1s 2s 3s 5s",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "gateway.operatorAccess": "LOOPBACK",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "enablePropertyFilter": "true",
}
"""Small files, short waits, and everything switched on that requests can reach."""
ACCOUNTS: Final = "accounts"
USED_BY_HAND: Final = 5
"""The longest waits until a change by hand has to be used: the file is touched meanwhile, which makes it later."""
SETTLE_S: Final = 20.0
"""Seconds after the attack until the sockets of all clients must be closed."""
PROGRESS_EVERY_S: Final = 10
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run.

    :param rate: requests of the fuzzer a second.
    :param out: where the journal and the log of a failed run go.
    """

    minutes: float
    seed: int
    rate: float
    out: Path
    compiled: bool = False
    limits: Limits = field(default_factory=Limits)
    accounts: Kind = Kind.NONE


@contextmanager
def packages(*, compiled: bool) -> Iterator[None]:
    """Let processes that are started in the block load the interpreted, or the compiled, packages."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ACCELERATED if compiled else ROOT)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def serving(*, compiled: bool, accounts: Kind = Kind.NONE) -> Iterator[GatewayServer]:
    """A name server and a broker in a process of their own, with a new directory.

    :param accounts: their file is in ``ACCOUNTS`` of the directory.

    :raises RuntimeError: other packages were loaded than the ones asked for.
    """
    data = Path(tempfile.mkdtemp(prefix="fuzz-"))
    server = GatewayServer(data / "data", settings={**SETTINGS, **settings(accounts, data / ACCOUNTS)})
    try:
        with packages(compiled=compiled):
            server.start()
        if is_compiled(server.pid) is not compiled:
            raise RuntimeError(f"the server is{' not' if compiled else ''} compiled: run make accelerate")
        yield server
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


def addresses(server: GatewayServer) -> dict[Server, tuple[str, int]]:
    """Return the addresses of the two servers."""
    return {
        Server.BROKER: ("127.0.0.1", int(server.broker.rpartition(":")[2])),
        Server.NAME_SERVER: ("127.0.0.1", int(server.nameserver.rpartition(":")[2])),
    }


class HonestProcess:
    """The honest clients, in a process of their own."""

    def __init__(self, server: GatewayServer, account: Member | None) -> None:
        keys = {} if account is None else {"FUZZ_KEYS": f"{account.name} {account.secret}"}
        with packages(compiled=False):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gateway.tests.fuzz.honest", server.broker, server.nameserver],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "FUZZ_DIRECTORY": str(server.data.parent), **keys},
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("the honest clients did not start")

    def end(self) -> Report:
        """Let them read what is left; their report."""
        told, _ = self._process.communicate()
        return Report(**json.loads(told))


class Guarded:
    """The parts of a run that are there while the server has accounts.

    :param signing: makes the frames.
    """

    def __init__(self, plan: Plan, server: GatewayServer, random: Random) -> None:
        self.party = party(plan.accounts)
        self._server = server
        self._directory = server.data.parent / ACCOUNTS
        self._canary = Canary(self.party, addresses(server))
        self._canary.make()
        self.judge = Judge(self.party, self._canary.text.encode())
        self.signing = Signing(random, self.party, self.judge, self._canary.message_id)
        patience_s = USED_BY_HAND * plan.limits.longest_ms / 1_000
        self.changing = Changing(plan.accounts, self._directory, addresses(server)[Server.BROKER], patience_s)

    def end(self) -> list[str]:
        """End the changes; return what was answered wrongly, and what changed and should not have."""
        self.changing.end()
        return [*self.judge.wrong, *self.changing.wrong, *self._canary.changes()]

    def left(self, log: str) -> list[str]:
        """Return what is wrong with the files and the log of the server, after its end."""
        return [
            *accounts_wrong(self.party, file_of(self.party.kind, self._directory)),
            *audit_wrong(self.party, self._server.data),
            *secrets_in(self.party, log, "the log"),
        ]

    def table(self) -> Iterator[str]:
        """Yield lines for people."""
        for name in sorted({*self.judge.let_in, *self.judge.refused}):
            yield f"{name:16}{self.judge.let_in[name]:9,} let in{self.judge.refused[name]:9,} refused"
        yield f"{self.changing.rounds} rounds of changes, by hand used after {self.changing.longest_s:.1f} s at most"


def run(plan: Plan, say: Say) -> list[str]:
    """Fuzz a server and return what went wrong."""
    random = Random(plan.seed)
    with serving(compiled=plan.compiled, accounts=plan.accounts) as server:
        start = taken_by(server.pid)
        watched = Watched(server.log, start, start, start)
        guarded = None if plan.accounts is Kind.NONE else Guarded(plan, server, random)
        honest = HonestProcess(server, None if guarded is None else guarded.party.honest)
        grammar = Grammar(random, lambda: time.time_ns() // 1_000_000)
        attack = Attack(random, grammar, addresses(server), plan.rate)
        if guarded is not None:
            attack = Attack(random, grammar, addresses(server), plan.rate, guarded.judge, guarded.signing.frame)
            guarded.changing.start()
        is_alive, found = True, list[str]()
        try:
            asyncio.run(_attack(plan, attack, server, watched, say))
            found += [] if guarded is None else guarded.end()
        except (FileNotFoundError, ProcessLookupError):  # of /proc: the server is gone
            is_alive = False
        finally:
            report = honest.end()
        if is_alive:
            _settle(server, watched)
        exit_code, log = _stopped(server), server.log.read_text(encoding="utf-8", errors="replace")
        found += wrong(report, watched, exit_code, plan.limits)
        found += [] if guarded is None else guarded.left(log)
        found += [] if exit_code != 0 else _verified(server.data)
        for line in table(report, watched, attack.requests):
            say(line)
        for line in () if guarded is None else guarded.table():
            say(line)
        say(f"{attack.encrypted:,} connections over TLS")
        unanswered = len({code for code, _ in attack.answers})
        say(f"{unanswered} codes were answered, {len({code for code, to in attack.answers if to == 0})} with success")
    if found:
        plan.out.mkdir(parents=True, exist_ok=True)
        save(plan.out / "journal.jsonl", attack.journal.entries)
        (plan.out / "server.log").write_text(log, encoding="utf-8")
        say(f"journal and log are in {plan.out}; again: python -m gateway.tests.fuzz --replay {plan.out}/journal.jsonl")
    return found


async def _attack(plan: Plan, attack: Attack, server: GatewayServer, watched: Watched, say: Say) -> None:
    ended = asyncio.Event()
    attacking = asyncio.create_task(attack.run(ended))
    seconds = max(1, round(plan.minutes * 60))
    try:
        for second in range(1, seconds + 1):
            await asyncio.wait([attacking], timeout=1)
            if attacking.done():
                break
            watched.look(taken_by(server.pid))
            if second % 60 == 0 or second == seconds:
                watched.minute_over()
            if second % PROGRESS_EVERY_S == 0:
                taken = watched.last
                say(
                    f"{second} s: {attack.requests:,} requests, {taken.rss_bytes >> 20} MiB, {taken.sockets} sockets, "
                    f"{taken.threads} threads, {len(watched.wrong_lines)} errors in the log"
                )
    finally:
        ended.set()
        await attacking


def _settle(server: GatewayServer, watched: Watched) -> None:
    """Wait until the sockets of all clients are closed, for ``SETTLE_S`` at most."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        time.sleep(0.5)  # noqa: TID251 - a real process closes real sockets
        watched.look(taken_by(server.pid))
        if watched.last.sockets <= watched.start.sockets + MAX_SOCKETS_LEFT:
            return


def _stopped(server: GatewayServer) -> int | None:
    """Stop orderly; the exit code."""
    process = server._process
    assert process is not None
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        return None


def _verified(data: Path) -> list[str]:
    """Return the findings of ``store verify`` in the directory."""
    with packages(compiled=False):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "gateway.cli", "store", "verify", *_as_options(SETTINGS), str(data)],
            capture_output=True,
            text=True,
            check=False,
        )
    return [] if done.returncode == 0 else [f"store verify: {done.stdout[-2_000:]}{done.stderr[-500:]}"]


def _as_options(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def errors_of(entries: Sequence[Entry], *, compiled: bool, accounts: Kind = Kind.NONE) -> list[str]:
    """Replay entries to a new server; the errors in its log, or that it is gone."""
    with serving(compiled=compiled, accounts=accounts) as server:
        replay(entries, {str(kind): address for kind, address in addresses(server).items()})
        time.sleep(1)  # noqa: TID251 - what was sent last is still worked on
        process = server._process
        if process is None or process.poll() is not None:
            return ["the server is gone"]
        lines = server.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if WRONG_LINE.search(line)]


def least(entries: Sequence[Entry], say: Say, *, compiled: bool, accounts: Kind = Kind.NONE) -> list[Entry]:
    """The fewest of the entries that still bring an error into the log of a new server, as far as a search finds."""
    tries = 0

    def fails(some: Sequence[Entry]) -> bool:
        nonlocal tries
        tries += 1
        found = bool(errors_of(some, compiled=compiled, accounts=accounts))
        say(f"try {tries}: {len(some)} writes {'still fail' if found else 'do not fail'}")
        return found

    return shrink(entries, fails) if fails(entries) else list(entries)
