"""The audit file: what it holds, how floods are summed up, how it is rotated, and a disk that is full."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gateway.access.alone import alone
from gateway.access.audit import MAX_BYTES, MAX_LINES_PER_HOST, MAX_WAITING, MORE_OF_HOST, Audit, Told, changes_file
from gateway.access.failures import WINDOW_MS
from gateway.in_thread import in_this_thread

SEND = 310


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def audit(path: Path) -> Audit:
    return Audit(path, in_this_thread, max_bytes=1 << 20, files=10, clock_ms=lambda: 1_777_889_472_345)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def refuse(
    audit: Audit, topic: str = "orders", *, host: str = "10.1.2.3", account: str = "shop", client: str = "10.1.2.3@7#1"
) -> None:
    audit.refused(Told(account, host, SEND, f"Topic:{topic}", "Pub", "no policy matches", client))


def test_a_refusal_tells_who_from_where_what_and_which_rule(audit: Audit, path: Path) -> None:
    refuse(audit)
    audit.tick()
    assert lines(path) == [
        {
            "time": "2026-05-04T10:11:12.345Z",
            "event": "refused",
            "account": "shop",
            "host": "10.1.2.3",
            "client": "10.1.2.3@7#1",
            "code": 310,
            "request": "SEND_MESSAGE_V2",
            "resource": "Topic:orders",
            "action": "Pub",
            "rule": "no policy matches",
        }
    ]


def test_what_is_not_known_is_left_out_of_the_line(audit: Audit, path: Path) -> None:
    audit.refused(Told("", "10.1.2.3", 4711, "", "", "no account named"))
    audit.tick()
    assert set(lines(path)[0]) == {"time", "event", "host", "code", "request", "rule"}


def test_a_change_is_written_at_once_and_each_by_itself(audit: Audit, path: Path) -> None:
    for _ in range(2):
        audit.changed(Told("root", "10.1.2.3", 3001, "User:shop", "Create", "Super"))
    assert not path.exists()
    assert [(line["event"], line["resource"]) for line in lines(changes_file(path))] == [("changed", "User:shop")] * 2


def test_only_the_owner_may_read_the_file(audit: Audit, path: Path) -> None:
    path.touch(0o644)
    path.chmod(0o644)
    refuse(audit)
    audit.tick()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_flood_of_equal_refusals_is_one_line(audit: Audit, path: Path) -> None:
    for _ in range(500):
        refuse(audit)
        refuse(audit, "bills")
        refuse(audit, client="10.1.2.3@8#1")
        audit.refused(Told("shop", "10.1.2.3", SEND, "Topic:orders", "Pub", "a rule denies it", "10.1.2.3@7#1"))
    audit.tick()
    refuse(audit)
    audit.tick()
    found = [(line["resource"], line["client"][9:], line["rule"], line.get("times")) for line in lines(path)]
    assert found == [
        ("Topic:orders", "7#1", "no policy matches", 500),
        ("Topic:bills", "7#1", "no policy matches", 500),
        ("Topic:orders", "8#1", "no policy matches", 500),
        ("Topic:orders", "7#1", "a rule denies it", 500),
        ("Topic:orders", "7#1", "no policy matches", None),
    ]


def test_what_does_not_fit_is_counted_and_told_and_changes_have_room_of_their_own(audit: Audit, path: Path) -> None:
    for number in range(MAX_WAITING + 7):
        refuse(audit, host=f"10.1.{number // 250}.{number % 250}")
    audit.changed(Told("root", "10.1.2.3", 3003, "User:shop", "Delete", "Super"))
    audit.tick()
    assert [line["event"] for line in lines(changes_file(path))] == ["changed"]
    found = lines(path)
    assert len(found) == MAX_WAITING + 1
    assert found[-1] == {"event": "left out", "times": 7}


def test_a_host_gets_so_many_lines_a_minute_and_then_one_a_write_that_counts_the_rest(path: Path) -> None:
    now = [0]
    audit = Audit(path, in_this_thread, max_bytes=1 << 20, files=10, clock_ms=lambda: now[0])
    networks = ["2001:db8::", "2001:db8:0:1::"]
    for second in range(3):
        for number in range(1000):
            refuse(audit, f"t{number}", host=f"{networks[0]}{number:x}")
        refuse(audit, host=f"{networks[1]}5")
        audit.tick()
        now[0] = 1000 * (second + 1)
    found = lines(path)
    assert len(found) == MAX_LINES_PER_HOST + 3 * 2
    more = [line for line in found if line["rule"] == MORE_OF_HOST]
    assert [line["times"] for line in more] == [1000 - MAX_LINES_PER_HOST, 1000, 1000]
    assert more[1] == {
        "time": "1970-01-01T00:00:01.000Z",
        "event": "refused",
        "host": "2001:db8::/64",
        "rule": MORE_OF_HOST,
        "times": 1000,
    }
    now[0] = WINDOW_MS
    refuse(audit, "later", host=f"{networks[0]}1")
    audit.tick()
    assert lines(path)[-1]["resource"] == "Topic:later"


def test_no_refusal_pushes_a_change_out_of_the_files(path: Path) -> None:
    audit = Audit(path, in_this_thread, max_bytes=10_000, files=2)
    audit.changed(Told("root", "10.1.2.3", 3001, "User:mallory", "Create", "Super"))
    for number in range(200):
        refuse(audit, f"t{number}", host=f"10.1.2.{number}")
        audit.tick()
    kept = [line for file in path.parent.glob("audit*") for line in lines(file)]
    assert "Topic:t0" not in [line["resource"] for line in kept]
    assert [line["resource"] for line in kept if line["event"] == "changed"] == ["User:mallory"]


@pytest.mark.parametrize(
    "nasty",
    [
        "\n\x1b[2J\u2028\ud800" + "x" * 100_000,
        "\U000e0001" * 256,
        '"' * 256,
        "\u00e9" * 256,
        "\x7f" * 127 + "\u4e2d" * 99,
    ],
)
def test_what_a_peer_sends_takes_little_room_and_breaks_no_line(audit: Audit, path: Path, nasty: str) -> None:
    audit.refused(Told(nasty, "10.1.2.3", SEND, nasty, nasty, nasty, nasty))
    audit.tick()
    (line,) = path.read_bytes().splitlines()
    assert len(line) < 5 * MAX_BYTES + 200
    assert not any(byte < 32 or byte == 127 for byte in line)
    account = lines(path)[0]["account"]
    assert account
    assert account == nasty[: len(account)]


def test_a_text_is_cut_no_earlier_than_it_needs_to_be(audit: Audit, path: Path) -> None:
    for text in ("x" * 300, "\U000e0001" * 300):
        audit.refused(Told("shop", "10.1.2.3", SEND, text, "Pub", "no policy matches"))
    audit.tick()
    assert [len(line["resource"]) for line in lines(path)] == [MAX_BYTES, MAX_BYTES // len("\\udb40\\udc01")]


def test_nothing_is_written_while_nothing_happens(audit: Audit, path: Path) -> None:
    audit.tick()
    audit.close()
    assert not path.exists()


def test_refusals_during_a_write_share_the_next_one(path: Path) -> None:
    waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
    audit = Audit(path, lambda work, done: waiting.append((work, done)), max_bytes=1 << 20, files=10)
    refuse(audit)
    audit.tick()
    refuse(audit, "bills")
    audit.tick()
    assert len(waiting) == 1
    in_this_thread(*waiting.pop())
    audit.tick()
    in_this_thread(*waiting.pop())
    assert [line["resource"] for line in lines(path)] == ["Topic:orders", "Topic:bills"]


def test_the_end_writes_what_waits(audit: Audit, path: Path) -> None:
    refuse(audit)
    audit.close()
    assert len(lines(path)) == 1


def test_files_are_rotated_by_size_and_the_oldest_goes(path: Path) -> None:
    audit = Audit(path, in_this_thread, max_bytes=1, files=3)
    for number in range(5):
        refuse(audit, f"t{number}")
        audit.tick()
    files = [path, path.with_name("audit.jsonl.1"), path.with_name("audit.jsonl.2")]
    assert set(path.parent.glob("audit*")) == set(files)
    assert [[line["resource"] for line in lines(file)] for file in files] == [["Topic:t4"], ["Topic:t3"], ["Topic:t2"]]


def test_two_servers_with_one_file_write_and_rename_it_one_after_the_other(path: Path) -> None:
    def server() -> None:
        audit = Audit(path, in_this_thread, max_bytes=300, files=100)
        for number in range(20):
            refuse(audit, f"t{number}")
            audit.tick()

    servers = [Thread(target=server) for _ in range(2)]
    with alone(path):
        for thread in servers:
            thread.start()
        servers[0].join(0.1)
        assert not path.exists()
    for thread in servers:
        thread.join()
    files = path.parent.glob("audit*")
    assert sorted(line["resource"] for file in files for line in lines(file)) == sorted(
        f"Topic:t{number}" for number in range(20) for _ in servers
    )


def test_a_single_file_begins_anew(path: Path) -> None:
    audit = Audit(path, in_this_thread, max_bytes=1, files=1)
    for topic in ("t0", "t1"):
        refuse(audit, topic)
        audit.tick()
    assert [file.name for file in path.parent.glob("audit*")] == ["audit.jsonl"]
    assert [line["resource"] for line in lines(path)] == ["Topic:t1"]


def test_a_line_that_a_crash_cut_does_not_spoil_the_next(audit: Audit, path: Path) -> None:
    path.write_text('{"event":"refu')
    refuse(audit)
    audit.tick()
    assert json.loads(path.read_text().splitlines()[1])["event"] == "refused"


def test_a_full_disk_is_told_once_and_no_line_is_torn(
    audit: Audit, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: len(data) - 50])

    caplog.set_level(logging.INFO, "gateway.access")
    refuse(audit)
    audit.tick()
    before = path.read_bytes()
    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        refuse(audit)
        audit.tick()
    assert path.read_bytes() == before
    monkeypatch.undo()
    refuse(audit)
    audit.tick()
    assert [line["event"] for line in lines(path)] == ["refused", "refused", "left out"]
    assert lines(path)[-1]["times"] == 3
    assert [record.message for record in caplog.records] == [
        "audit file not written; its entries are counted",
        "audit file written again",
    ]


def test_a_file_that_cannot_be_made_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(tmp_path / "missing" / "audit.jsonl", in_this_thread, max_bytes=1 << 20, files=10)
    refuse(audit)
    audit.tick()
    audit.close()
    assert audit.left_out == 1
    assert len(caplog.records) == 1


def test_a_link_in_the_place_of_the_file_is_not_followed(audit: Audit, path: Path) -> None:
    target = path.with_name("other")
    target.write_text("mine\n")
    path.symlink_to(target)
    refuse(audit)
    audit.tick()
    assert target.read_text() == "mine\n"
    assert audit.left_out == 1
