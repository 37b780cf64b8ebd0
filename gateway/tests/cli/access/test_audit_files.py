"""``access audit``: the files of a server's audit, filtered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.access.audit import Audit, Told
from gateway.cli.main import cli
from gateway.in_thread import in_this_thread

START_MS = 1_777_889_472_345


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Refusals of two accounts over three files, a second between them, and one change."""
    now = [START_MS]
    audit = Audit(tmp_path / "audit.jsonl", in_this_thread, max_bytes=400, files=9, clock_ms=lambda: now[0])
    for number in range(6):
        account = "shop" if number % 2 else "bank"
        host, client = f"10.0.0.{number}", f"c{number}"
        audit.refused(Told(account, host, 310, f"Topic:t{number}", "Pub", "no matched policies", client))
        audit.tick()
        now[0] += 1000
    audit.changed(Told("root", "10.0.0.9", 3001, "User:shop", "Create", "Super"))
    return tmp_path / "audit.jsonl"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["access", "audit", *arguments])


def resources(*arguments: str) -> list[str]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line)["resource"] for line in result.stdout.splitlines()]


def test_all_parts_are_read_the_oldest_first(file: Path) -> None:
    assert len(list(file.parent.iterdir())) > 2
    assert resources(str(file)) == [*(f"Topic:t{number}" for number in range(6)), "User:shop"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--account", "shop"], ["Topic:t1", "Topic:t3", "Topic:t5"]),
        (["--host", "10.0.0.2"], ["Topic:t2"]),
        (["--resource", "t4"], ["Topic:t4"]),
        (["--request", "3001"], ["User:shop"]),
        (["--request", "send_message_v2", "--account", "bank"], ["Topic:t0", "Topic:t2", "Topic:t4"]),
        (["--event", "changed"], ["User:shop"]),
        (["--since", "2026-05-04T10:11:17"], ["Topic:t5", "User:shop"]),
        (["--limit", "2"], ["Topic:t5", "User:shop"]),
        (["--account", "nobody"], []),
    ],
)
def test_filters_choose_lines(file: Path, filters: list[str], found: list[str]) -> None:
    assert resources(str(file), *filters) == found


def test_changes_are_in_a_file_of_their_own_and_shown_among_the_refusals(tmp_path: Path) -> None:
    now = [START_MS]
    audit = Audit(tmp_path / "audit.jsonl", in_this_thread, max_bytes=400, files=9, clock_ms=lambda: now[0])
    for number in range(3):
        audit.refused(Told("shop", "10.0.0.1", 310, f"Topic:t{number}", "Pub", "no matched policies"))
        audit.tick()
        now[0] += 1000
        audit.changed(Told("root", "10.0.0.9", 3001, f"User:u{number}", "Create", "Super"))
        now[0] += 1000
    shown = ["Topic:t0", "User:u0", "Topic:t1", "User:u1", "Topic:t2", "User:u2"]
    assert resources(str(tmp_path / "audit.jsonl")) == shown
    for part in tmp_path.glob("audit.jsonl*"):
        part.unlink()
    assert resources(str(tmp_path / "audit.jsonl")) == shown[1::2]


def test_a_table_is_for_people(file: Path) -> None:
    lines = run(str(file), "--account", "shop").stdout.splitlines()
    assert lines[0].split()[:5] == ["TIME", "EVENT", "ACCOUNT", "HOST", "CLIENT"]
    assert lines[1].split()[2:5] == ["shop", "10.0.0.1", "c1"]
    assert "SEND_MESSAGE_V2" in lines[1]
    assert "no matched policies" in lines[1]


def test_lines_that_cannot_be_read_are_counted(file: Path) -> None:
    with file.open("a") as opened:
        opened.write('{"event":"refu\n[]\n' + "x" * 100_000 + "\n")
    result = run(str(file))
    assert result.exit_code == 0
    assert "lines cannot be read" in result.stderr


def test_what_a_peer_sent_cannot_move_the_cursor(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", in_this_thread, max_bytes=1 << 20, files=10)
    audit.refused(Told("\x1b[2J\nroot", "10.0.0.1", 310, "", "", "no such account"))
    audit.tick()
    shown = run(str(tmp_path / "audit.jsonl")).stdout
    assert r"\u001b[2J\u000aroot" in shown
    assert len(shown.splitlines()) == 2


def test_a_missing_file_says_why_it_may_be_missing(tmp_path: Path) -> None:
    result = run(str(tmp_path / "audit.jsonl"))
    assert result.exit_code == 2
    assert "gateway.auditFile" in result.output
