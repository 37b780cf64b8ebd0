from __future__ import annotations

import errno
import logging
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from twisted.internet.task import Clock

from gateway.access.alone import alone
from gateway.access.policies.access_file import build_users, parse_users
from gateway.access.policies.edits import create_user, delete_acl, delete_user, merge_acl
from gateway.access.policies.kept_users import KeptUsers
from gateway.access.policies.users import User, Users, UserType
from gateway.access.private_disk import PrivateDisk
from gateway.errors import GatewayError, RequestRefused
from gateway.in_thread import Failed, in_this_thread
from gateway.tests.access.policies.sample_users import HERE, ORDERS, user
from wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

ROOT = User("root", "root-password", UserType.SUPER)
PASSWORD = UserInfo(password="abc")


class Threads:
    """Work that waits until the test runs it."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.works.append(partial(in_this_thread, work, done))

    def run_one(self) -> None:
        """Run the work that waits longest."""
        self.works.pop(0)()


class FullDisk(PrivateDisk):
    """A disk that is full as long as the test says so."""

    full = False

    def write(self, path: Path, content: bytes) -> None:
        super().write(path, content[:10] if self.full else content)
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The place of the file, in a folder that is not there yet."""
    return tmp_path / "config" / "access.json"


@pytest.fixture
def clock() -> Clock:
    """The time of the looks."""
    return Clock()


@pytest.fixture
def kept(path: Path, clock: Clock) -> Iterator[KeptUsers]:
    """Users with anna in their file, which is looked at."""
    path.parent.mkdir()
    write(path, Users({"anna": user("Topic:orders Pub Allow")}))
    kept = KeptUsers(path, in_this_thread)
    kept.load()
    kept.start(clock)
    yield kept
    kept.stop()
    assert not clock.getDelayedCalls()


def write(path: Path, users: Users | bytes) -> None:
    """Write the file as a person does."""
    path.write_bytes(users if isinstance(users, bytes) else build_users(users))
    path.chmod(0o600)


def create(name: str) -> Callable[[Users], Users]:
    """The change that adds a user."""
    return lambda users: create_user(users, name, PASSWORD, by_super=False)


def refusal(outcome: Users | Failed) -> str:
    """The text of a refusal."""
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, RequestRefused)
    return outcome.error.remark


def test_a_missing_file_has_no_users_and_is_not_made(path: Path) -> None:
    kept = KeptUsers(path, in_this_thread)
    kept.load()

    assert kept.find("anna") is None
    assert not path.exists()


def test_users_of_the_settings_are_made_once_and_written_for_the_owner_only(path: Path) -> None:
    KeptUsers(path, in_this_thread).load([ROOT])
    kept = KeptUsers(path, in_this_thread)
    kept.load(
        [User("root", "another password", UserType.SUPER), User("inner", "x", UserType.SUPER), User("inner", "y")]
    )

    assert kept.users == {"root": ROOT, "inner": User("inner", "x", UserType.SUPER)}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found for found in path.parent.iterdir() if not found.name.startswith(".")] == [path]


def test_users_are_found_by_their_names_and_always_sign(kept: KeptUsers) -> None:
    found = kept.find("anna")

    assert found is not None
    assert found.judge(ORDERS, HERE).allowed
    assert kept.unsigned(HERE, "anna") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"users": 1}'])
def test_no_start_with_a_file_that_cannot_be_used(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    write(path, content)

    with pytest.raises(GatewayError, match=f"{path}: line 1: "):
        KeptUsers(path, in_this_thread).load([ROOT])
    assert path.read_bytes() == content


@pytest.mark.parametrize(("name", "password"), [("a\nb", "p"), ("x" * 256, "p"), ("root", "******"), ("root", " ")])
def test_no_start_with_a_user_that_the_file_could_not_keep(path: Path, name: str, password: str) -> None:
    with pytest.raises(GatewayError, match=r"user '.*' cannot be added"):
        KeptUsers(path, in_this_thread).load([User(name, password)])
    assert not path.exists()


def test_no_start_if_the_first_user_cannot_be_written(path: Path) -> None:
    disk = FullDisk()
    disk.full = True
    with pytest.raises(GatewayError, match=r"users cannot be written to .*: No space left on device"):
        KeptUsers(path, in_this_thread, disk).load([ROOT])


def test_a_change_by_hand_is_used_within_a_second(kept: KeptUsers, path: Path, clock: Clock) -> None:
    write(path, Users({"bert": User("bert", "b")}))
    clock.advance(0.5)

    assert list(kept.users) == ["bert"]


def test_a_broken_file_keeps_the_last_good_one_and_says_why_once(
    kept: KeptUsers, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, b'{"users": [\n}')
    for _ in range(4):
        clock.advance(0.5)

    assert list(kept.users) == ["anna"]
    (record,) = caplog.records
    assert f"{path}: line 2: JSON is malformed" in record.facts["fault"]  # type: ignore[attr-defined]

    write(path, Users({"bert": User("bert", "b")}))
    clock.advance(0.5)
    assert list(kept.users) == ["bert"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"users": []}',
        b'{"users": [{"username": "anna", "password": "a"}]}',
        b'{"users": [{"username": "root", "password": "r", "userType": "Super", "userStatus": "disable"}]}',
    ],
)
def test_a_file_that_would_lock_everybody_out_keeps_the_last_good_one(
    kept: KeptUsers, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    write(path, Users({"root": ROOT, "anna": User("anna", "a")}))
    clock.advance(0.5)
    write(path, content)
    for _ in range(4):
        clock.advance(0.5)

    assert sorted(kept.users) == ["anna", "root"]
    assert kept.users["root"].is_enabled
    (record,) = caplog.records
    assert str(path) in record.facts["fault"]  # type: ignore[attr-defined]
    outcomes: list[Users | Failed] = []
    kept.change(create("bert"), outcomes.append)
    assert "nothing is changed while the file of users cannot be used" in refusal(outcomes[0])
    assert path.read_bytes() == content


def test_a_half_written_file_is_not_told(
    kept: KeptUsers, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    whole = build_users(Users({"bert": User("bert", "b")}))
    write(path, whole[:20])
    clock.advance(0.5)
    write(path, whole)
    clock.advance(0.5)

    assert list(kept.users) == ["bert"]
    assert not caplog.records


def test_a_file_that_is_gone_keeps_the_users_and_the_next_change_writes_them(
    kept: KeptUsers, path: Path, clock: Clock
) -> None:
    path.unlink()
    clock.advance(0.5)
    assert list(kept.users) == ["anna"]

    kept.change(create("bert"), lambda _: None)
    assert list(parse_users(path.read_bytes())) == ["anna", "bert"]


def test_a_file_that_cannot_be_read_keeps_the_users(
    kept: KeptUsers, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path.unlink()
    path.mkdir()
    for _ in range(3):
        clock.advance(0.5)

    assert list(kept.users) == ["anna"]
    assert [record.facts["fault"] for record in caplog.records] == [f"{path}: Is a directory"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_a_file_that_others_may_read_or_change_is_used_with_a_warning(
    kept: KeptUsers, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    caplog.set_level(logging.WARNING)
    path.chmod(mode)
    for _ in range(3):
        clock.advance(0.5)

    (record,) = caplog.records
    assert record.facts["mode"] == f"{mode:o}"  # type: ignore[attr-defined]
    kept.change(create("bert"), lambda _: None)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_change_is_on_disk_before_it_counts(path: Path) -> None:
    threads, outcomes = Threads(), list[Users | Failed]()
    kept = KeptUsers(path, threads)
    kept.change(create("bert"), outcomes.append)
    assert (kept.find("bert"), outcomes) == (None, [])

    threads.run_one()
    assert outcomes == [kept.users]
    assert parse_users(path.read_bytes()) == kept.users == {"bert": User("bert", "abc")}


def test_changes_that_come_together_share_a_write_and_each_gets_its_own_outcome(path: Path) -> None:
    threads, outcomes = Threads(), list[Users | Failed]()
    kept = KeptUsers(path, threads)
    for edit in (create("a"), create("b"), create("b"), lambda users: delete_user(users, "a", by_super=False)):
        kept.change(edit, outcomes.append)
    assert len(threads.works) == 1

    threads.run_one()
    threads.run_one()
    assert not threads.works
    assert list(kept.users) == ["b"]
    assert [isinstance(outcome, Failed) for outcome in outcomes] == [False, False, True, False]
    assert refusal(outcomes[2]) == "The user is existed"


def test_a_change_by_hand_is_not_lost_to_a_change_by_request(kept: KeptUsers, path: Path) -> None:
    write(path, Users({"carl": User("carl", "c")}))
    kept.change(create("bert"), lambda _: None)

    assert list(parse_users(path.read_bytes())) == ["carl", "bert"]


def test_nothing_is_changed_over_a_broken_file(kept: KeptUsers, path: Path) -> None:
    outcomes: list[Users | Failed] = []
    write(path, b"{")
    kept.change(create("bert"), outcomes.append)

    assert "nothing is changed while the file of users cannot be used" in refusal(outcomes[0])
    assert (path.read_bytes(), list(kept.users)) == (b"{", ["anna"])


def test_a_full_disk_refuses_a_change_and_nothing_is_different(path: Path) -> None:
    disk, outcomes = FullDisk(), list[Users | Failed]()
    kept = KeptUsers(path, in_this_thread, disk)
    kept.load([ROOT])
    before = path.read_bytes()

    disk.full = True
    kept.change(create("bert"), outcomes.append)
    assert "(No space left on device)" in refusal(outcomes[0])
    assert dict(kept.users) == {"root": ROOT}
    assert (path.read_bytes(), {*path.parent.iterdir()}) == (before, {path, path.with_name(".access.json.lock")})

    disk.full = False
    kept.change(create("bert"), outcomes.append)
    assert list(parse_users(path.read_bytes())) == ["root", "bert"]


def limit_file(monkeypatch: pytest.MonkeyPatch, users: Users) -> None:
    """Make the file of these users the largest one that is read."""
    monkeypatch.setattr("gateway.access.policies.users_file.MAX_FILE_BYTES", len(build_users(users)))


def test_a_change_that_makes_the_file_too_large_to_be_read_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = Users({"root": ROOT, "anna": User("anna", "abc")})
    limit_file(monkeypatch, largest)
    kept = KeptUsers(path, in_this_thread)
    kept.load([ROOT])
    outcomes: list[Users | Failed] = []
    kept.change(create("anna"), outcomes.append)
    assert outcomes == [largest]
    kept.change(create("b"), outcomes.append)
    assert refusal(outcomes[1]).startswith("nothing is changed: the file of users would have ")
    assert kept.users == largest
    again = KeptUsers(path, in_this_thread)
    again.load()
    assert again.users == largest
    with pytest.raises(GatewayError, match=r"users cannot be written to .*the file of users would have"):
        again.load([User("inner", "x", UserType.SUPER)])


def test_a_change_that_is_too_large_refuses_no_change_that_came_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_file(monkeypatch, Users({"root": ROOT, "anna": User("anna", "abc")}))
    threads = Threads()
    kept = KeptUsers(path, threads)
    kept.load([ROOT, User("anna", "abc")])
    outcomes: list[Users | Failed] = []
    kept.change(create("none"), outcomes.append)
    for edit in (create("b"), lambda users: delete_user(users, "anna", by_super=True), create("c")):
        kept.change(edit, outcomes.append)
    threads.run_one()
    threads.run_one()
    assert [isinstance(outcome, Failed) for outcome in outcomes] == [True, True, False, False]
    assert list(kept.users) == ["root", "c"]
    assert parse_users(path.read_bytes()) == kept.users


def test_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    path.parent.mkdir()
    path.symlink_to(target)
    write(target, Users())
    kept = KeptUsers(path, in_this_thread)
    kept.load([ROOT])

    assert path.is_symlink()
    assert list(parse_users(target.read_bytes())) == ["root"]


def test_a_failing_change_of_another_kind_is_answered_as_well(path: Path) -> None:
    outcomes: list[Users | Failed] = []
    kept = KeptUsers(path, in_this_thread)
    kept.change(lambda users: users.without("nobody"), outcomes.append)
    kept.change(create("bert"), outcomes.append)

    assert isinstance(outcomes[0], Failed)
    assert list(kept.users) == ["bert"]


def test_a_start_waits_for_the_change_of_another_process_before_it_adds_users(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    kept = KeptUsers(path, in_this_thread)
    starting = Thread(target=kept.load, args=([ROOT],))
    with alone(path):
        starting.start()
        starting.join(0.2)
        assert starting.is_alive()
        write(path, Users({"anna": User("anna", "a")}))
    starting.join()
    assert sorted(kept.users) == ["anna", "root"]
    assert parse_users(path.read_bytes()) == kept.users


def test_a_start_that_adds_no_user_needs_no_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "access.json"
    write(path, Users({"root": ROOT}))
    monkeypatch.setattr("gateway.access.policies.users_file.alone", None)
    kept = KeptUsers(path, in_this_thread)
    kept.load([ROOT])
    assert list(kept.users) == ["root"]


def test_what_another_process_has_done_already_is_done_here_as_well(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "access.json"
    brokers = [KeptUsers(path, in_this_thread) for _ in range(2)]
    acl = AclInfo("User:bert", (PolicyInfo("Custom", (PolicyEntryInfo("Topic:t", ("Pub",), None, "Allow"),)),))
    for kept in brokers:
        kept.load([ROOT])
        kept.start(clock)

    def told(edit: Callable[[Users], Users], wait_s: float = 0) -> list[str]:
        """Ask both for a change, as a tool does for a cluster; return their refusals."""
        outcomes: list[Users | Failed] = []
        for kept in brokers:
            kept.change(edit, outcomes.append)
            clock.advance(wait_s)
        return [refusal(outcome) if isinstance(outcome, Failed) else "" for outcome in outcomes]

    for wait_s in (0, 0.6):
        assert told(create("bert"), wait_s) == ["", ""]
        assert told(create("bert"), wait_s) == ["The user is existed"] * 2
        assert told(lambda users: merge_acl(users, "User:bert", acl), wait_s) == ["", ""]
        assert told(lambda users: delete_acl(users, "User:bert", None, None), wait_s) == ["", ""]
        assert told(lambda users: delete_acl(users, "User:bert", None, None), wait_s) == ["The acl is not exist."] * 2
        assert told(lambda users: delete_user(users, "bert", by_super=False), wait_s) == ["", ""]
    outcomes: list[Users | Failed] = []
    brokers[0].change(create("bert"), outcomes.append)
    other = UserInfo(password="another")
    brokers[1].change(lambda users: create_user(users, "bert", other, by_super=False), outcomes.append)
    assert refusal(outcomes[1]) == "The user is existed"
    for kept in brokers:
        kept.stop()


def test_two_processes_with_the_same_file_lose_no_change_of_the_other(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    KeptUsers(path, in_this_thread).load([User("root", "p", UserType.SUPER)])
    outcomes: list[Users | Failed] = []

    def make(prefix: str) -> None:
        kept = KeptUsers(path, in_this_thread)  # as another process has it
        kept.load()
        for number in range(20):
            name = f"{prefix}{number}"
            kept.change(lambda users, name=name: users.with_user(User(name, "p")), outcomes.append)  # type: ignore[misc]

    threads = [Thread(target=make, args=(prefix,)) for prefix in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome for outcome in outcomes if isinstance(outcome, Failed)] == []
    assert len(parse_users(path.read_bytes())) == 41
    assert stat.S_IMODE((tmp_path / ".access.json.lock").stat().st_mode) == 0o600
