"""The accounts in use follow their files within a second, and wait for the disk in a thread only."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from twisted.internet.task import Clock

from gateway.access.plain.accounts import PlainAccounts
from gateway.access.plain.changes import AccountChange, AccountRemoval
from gateway.access.plain.files import PlainFiles
from gateway.access.plain.plain_access import LOOKS_EVERY_S, PlainAccess
from gateway.in_thread import Failed, in_this_thread

WITHIN_S = 1.0
HOST = "10.1.2.3"


def written(path: Path, name: str, white: str = "10.9.9.9") -> None:
    path.write_text(
        f"globalWhiteRemoteAddresses: ['{white}']\naccounts:\n- accessKey: {name}\n  secretKey: '12345678'\n"
    )
    os.utime(path, ns=(len(name), len(name)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    written(path, "account1")
    return path


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(path: Path, clock: Clock) -> PlainAccess:
    access = PlainAccess(PlainFiles(path, lambda: 0), clock, in_this_thread)
    access.start()
    return access


def pump(clock: Clock, seconds: float = WITHIN_S) -> None:
    clock.pump([LOOKS_EVERY_S] * int(seconds / LOOKS_EVERY_S))


def test_a_changed_file_is_used_within_a_second(access: PlainAccess, path: Path, clock: Clock) -> None:
    before = access.find("account1")
    assert before is not None
    assert access.unsigned(HOST, None) is None
    written(path, "account22", "10.1.*.*")
    pump(clock)
    assert access.find("account1") is None
    assert access.find("account22") is not None
    assert access.unsigned(HOST, None) == "globalWhiteRemoteAddresses: 10.1.*.*"
    assert before.name == "account1", "who holds an account keeps it as it was"


def test_a_change_by_a_request_is_not_undone_by_a_look_that_began_before_it(path: Path, clock: Clock) -> None:
    changing: list[Thread] = []

    class SlowFiles(PlainFiles):
        def look(self) -> PlainAccounts | None:
            found = super().look()
            if found is not None:
                thread = Thread(target=slow.change, args=(AccountRemoval("account22"),))
                changing.append(thread)
                thread.start()
                thread.join(0.3)  # it has changed the file, or waits
            return found

    slow = PlainAccess(SlowFiles(path, lambda: 0), clock, in_this_thread)
    slow.start()
    written(path, "account22")
    pump(clock)
    for thread in changing:
        thread.join()
    assert changing
    assert "account22" not in path.read_text()
    assert slow.find("account22") is None


def test_a_look_waits_in_a_thread_and_the_next_one_for_its_end(path: Path, clock: Clock) -> None:
    waiting: list[tuple[Callable[[], object], Callable[[object], None]]] = []
    access = PlainAccess(PlainFiles(path, lambda: 0), clock, lambda work, done: waiting.append((work, done)))
    access.start()
    pump(clock, 10 * WITHIN_S)
    ((work, done),) = waiting
    done(work())
    pump(clock)
    assert len(waiting) == 2


def test_a_look_that_fails_is_reported_and_the_next_one_comes(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fails: list[bool] = [True]

    def in_thread(work: Callable[[], object], done: Callable[[object], None]) -> None:
        done(Failed(RuntimeError("torn")) if fails.pop() else work())
        fails.append(False)

    access = PlainAccess(PlainFiles(path, lambda: 0), clock, in_thread)  # type: ignore[arg-type]
    access.start()
    pump(clock)
    assert caplog.text.count("files of accounts not looked at") == 1
    written(path, "account22")
    pump(clock)
    assert access.find("account22") is not None


def test_nothing_is_looked_at_after_a_stop(access: PlainAccess, path: Path, clock: Clock) -> None:
    access.stop()
    access.stop()
    written(path, "account22")
    pump(clock)
    assert access.find("account22") is None
    assert clock.getDelayedCalls() == []


def test_a_stop_while_a_look_waits_is_the_end(path: Path, clock: Clock) -> None:
    waiting: list[Callable[[object], None]] = []
    access = PlainAccess(PlainFiles(path, lambda: 0), clock, lambda _, done: waiting.append(done))
    access.start()
    pump(clock)
    access.stop()
    waiting.pop()(None)
    assert clock.getDelayedCalls() == []


def test_a_change_by_request_is_used_at_once_and_not_read_again(access: PlainAccess, path: Path, clock: Clock) -> None:
    access.change(AccountChange(name="newcomer", secret="12345678"))
    used = access.current
    assert access.find("newcomer") is not None
    pump(clock)
    assert access.current is used
    assert {path: version.counter for path, version in access.versions().items()} == {access.main: 1}


def test_a_white_list_for_everybody_is_reported_at_start_and_later(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    written(path, "account1", "*.*.*.*")
    with caplog.at_level(logging.WARNING):
        access = PlainAccess(PlainFiles(path, lambda: 0), clock, in_this_thread)
        access.start()
        written(path, "account22", "*")
        pump(clock)
    assert caplog.text.count("the white list lets every peer pass without a key") == 2
