"""The command ``transactions`` against a whole broker, over a socket that is none."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import cli
from gateway.settings.transaction import OperatorAccess
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.message.flags import SysFlag

COMMANDS = ["list", "show", "check", "commit", "rollback", "discard", "resume", "stats"]


class Wire:
    """A connected socket: what is sent arrives at the broker, what it answers can be read."""

    def __init__(self, broker: WholeBroker) -> None:
        self._broker = broker
        self._peer = broker.connect()

    def sendall(self, data: bytes) -> None:
        self._peer.send_bytes(data)
        self._broker.turn()

    def recv(self, count: int) -> bytes:
        written, self._peer.transport.writes[:] = b"".join(self._peer.transport.writes), []
        return written

    def close(self) -> None:
        self._peer.transport.loseConnection()


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WholeBroker]:
    monkeypatch.setattr("gateway.broker.parts.steady_clock", lambda clock_ms: clock_ms)
    broker = WholeBroker(tmp_path, operator_access=OperatorAccess.EVERYWHERE)
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: Wire(broker))
    yield broker
    broker.stop()


def half(broker: WholeBroker, peer: Peer, key: str, **more: str) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": key, "KEYS": f"order-{key}", **more}
    broker.send(peer, properties=properties)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["transactions", *arguments])


def test_a_list_is_a_table_with_what_people_ask_for(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    broker.wait(2)
    result = run("list")
    assert result.exit_code == 0, result.output
    head, row = result.stdout.splitlines()
    names = ["ID", "AGE", "GROUP", "TOPIC", "KEYS", "CHECKS", "NEXT CHECK", "LAST PRODUCER", "CONFLICTS"]
    assert [head.find(name) >= 0 for name in names] == [True] * len(names)
    assert row.split()[:6] == ["0", "2s", "g", "orders", "order-k0", "0"]
    assert "no producer" in row


def shown(broker: WholeBroker, offset: int) -> dict[str, str]:
    """Return the output of ``show`` for a half message, by name; the lines of a body by the body's name."""
    result = run("show", str(offset))
    assert result.exit_code == 0, result.output
    fields, _, body = result.stdout.partition("\nbody:\n")
    found = {line[:18].strip(): line[19:] for line in fields.splitlines()}
    return {**found, "body": body}


def test_point_21_show_has_the_body_a_date_and_the_age(broker: WholeBroker) -> None:
    half(broker, broker.connect(), "k0")
    broker.wait(90)
    pending = shown(broker, 0)
    assert (pending["age"], pending["state"], pending["body"]) == ("1m30s", "PENDING", "  hello\n")
    assert pending["stored at"] == "2025-06-15T15:06:40.000Z"
    assert pending["checks"] == "0"
    run("commit", "0")
    broker.wait(30)
    settled = shown(broker, 0)
    assert (settled["age"], settled["state"], settled["body"]) == ("2m", "COMMITTED", "  hello\n")
    assert "checks" not in settled, "nobody counts the checks of a settled half message"
    found = json.loads(run("show", "0", "--json").stdout)
    assert (found["body"], found["age_ms"], found["checks"]) == ("hello", 120_000, None)


@pytest.mark.parametrize(
    ("body", "sys_flag", "name", "text"),
    [
        (b"\xff\xfe", 0, "body base64", "  //4=\n"),
        (zlib.compress(b"packed"), SysFlag.COMPRESSED, "body", "  packed\n"),
        (b"not packed", SysFlag.COMPRESSED, "body unread", "is compressed and damaged"),
        (b"x" * 5_000, 0, "body", "… and 1,000 more characters; --json shows them\n"),
        (b"one\nage 3d\x1b[2J", 0, "body", "  one\n  age 3d\\u001b[2J\n"),
        (b"", 0, "body", ""),
    ],
)
def test_a_body_is_shown_as_far_as_it_can_be(
    broker: WholeBroker, body: bytes, sys_flag: int, name: str, text: str
) -> None:
    properties = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "k0"}
    broker.send(broker.connect(), body=body, sys_flag=sys_flag, properties=properties)
    _, found, said = run("show", "0").stdout.partition(f"\n{name}:\n")
    assert found
    assert text in said


def test_refusals_of_one_kind_are_a_summary(broker: WholeBroker) -> None:
    peer = broker.connect()
    for number in range(8):
        half(broker, peer, f"k{number}")
    result = run("commit", *(f"unknown{number}" for number in range(9)))
    said = result.stderr.splitlines()
    assert result.exit_code == 1
    assert said[0].startswith("Error: unknown0: no half message has the id 'unknown0'")
    assert said[-1] == "Error: 4 more IDs failed like ID unknown0: unknown5, unknown6, unknown7, unknown8"
    assert len(said) == 7


def test_a_list_is_continued_where_the_last_one_ended(broker: WholeBroker) -> None:
    peer = broker.connect()
    for number in range(3):
        half(broker, peer, f"k{number}")
    result = run("list", "--limit", "2")
    assert "--after 1" in result.stderr
    found = json.loads(run("list", "--after", "1", "--json").stdout)
    assert [entry["half_offset"] for entry in found["transactions"]] == [2]
    assert found["next_after"] is None


def test_filters_narrow_a_list_and_an_empty_one_says_so(broker: WholeBroker) -> None:
    half(broker, broker.connect(), "k0")
    assert run("list", "--given-up").stderr == "Nothing was given up.\n"
    for filters in (["--group", "x"], ["--topic", "x"], ["--older-than", "3600000ms"], ["--after", "7"]):
        result = run("list", *filters)
        assert result.exit_code == 0
        assert result.stderr == f"No pending half message matches {' '.join(filters)}; there may be others.\n"
    assert len(run("list", "--topic", "orders", "--older-than", "0s").stdout.splitlines()) == 2


@pytest.mark.parametrize("wrong", [("--older-than", "999999999999d"), ("--after", "99999999999999999999")])
def test_a_number_that_no_request_can_carry_is_a_wrong_command(broker: WholeBroker, wrong: tuple[str, str]) -> None:
    result = run("list", *wrong)
    assert result.exit_code == 2
    assert wrong[0] in result.stderr


def test_keys_cannot_move_the_cursor(broker: WholeBroker) -> None:
    half(broker, broker.connect(), "k0", KEYS="a\x1b[2Jb")
    assert "\x1b" not in run("list").stdout


def test_what_is_committed_says_so_and_a_contradiction_ends_with_exit_code_1(broker: WholeBroker) -> None:
    peer = broker.connect()
    half(broker, peer, "k0")
    half(broker, peer, "k1")
    result = run("commit", "0", "1", "--operator", "alice", "--reason", "paid")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["0: half message 0 is COMMITTED", "1: half message 1 is COMMITTED"]
    result = run("rollback", "0", "1", "--json")
    assert result.exit_code == 1
    assert [entry["code"] for entry in json.loads(result.stdout)["results"]] == [604, 604]
    assert result.stderr.count("is COMMITTED, by operator alice@") == 2


def test_a_discard_needs_a_reason_and_can_be_resumed(broker: WholeBroker) -> None:
    half(broker, broker.connect(), "k0")
    assert run("discard", "0").exit_code == 2
    assert run("discard", "0", "--reason", "gone").stdout == "0: half message 0 is DISCARDED\n"
    found = json.loads(run("list", "--given-up", "--json").stdout)
    [entry] = found["transactions"]
    assert entry["reason"] == "gone"
    table = run("list", "--given-up").stdout
    assert "REASON" in table
    assert entry["message_id"] in table
    assert "half message 1 is PENDING" in run("resume", entry["message_id"]).stdout
    shown = run("show", "1").stdout
    assert "PENDING" in shown
    assert "REAL_TOPIC=orders" in shown


def test_a_check_and_the_figures(broker: WholeBroker) -> None:
    assert "oldest             -" in run("stats").stdout
    half(broker, broker.connect(), "k0")
    assert "no producer of its group is connected" in run("check", "0").stdout
    output = run("stats").stdout
    assert "pending            1" in output
    assert "oldest             0ms" in output
    assert "checks in flight   0" in output
    assert "UNKNOWN IN A ROW" in output
    assert json.loads(run("stats", "--json").stdout)["groups"][0]["pending"] == 1


def test_an_unknown_id_is_refused_with_advice(broker: WholeBroker) -> None:
    result = run("show", "99")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no half message has the id '99'")


def test_a_broker_that_is_not_there_is_one_line_and_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: object, timeout: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    result = run("stats", "--broker", "127.0.0.1:1")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: no broker answers at 127.0.0.1:1: Connection refused. Is it running? --broker HOST:PORT names another "
        "one\n"
    )


@pytest.mark.parametrize("broker_text", ["nowhere", "a:b:c", "127.0.0.1:0x1"])
def test_an_address_that_is_none_is_told(broker_text: str) -> None:
    result = run("stats", "--broker", broker_text)
    assert result.exit_code == 2
    assert "--broker" in result.stderr


def test_an_age_that_is_none_is_told() -> None:
    result = run("list", "--older-than", "10 minutes")
    assert result.exit_code == 2
    assert "90s, 10m, 2h or 3d" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_an_example_and_fits_a_terminal(command: str) -> None:
    result = run(command, "-h")
    assert result.exit_code == 0
    assert f"rocketmq-gateway transactions {command}" in result.output
    assert max(map(len, result.output.splitlines())) <= 120


def test_its_help_names_every_command() -> None:
    output = run("-h").output
    for command in COMMANDS:
        assert f"\n  {command} " in output
