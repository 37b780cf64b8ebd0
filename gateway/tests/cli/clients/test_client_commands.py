"""The commands ``produce``, ``consume`` and ``tail`` against a gateway that runs: what one writes the others read."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import cli
from gateway.client.testing.plugin import GatewayForTest
from gateway.client.testing.server import GatewayServer

LINES = "".join(
    json.dumps({"body": f"line {n}", "keys": [f"k{n}"], "tags": "odd" if n % 2 else "even"}) + "\n" for n in range(10)
)


@pytest.fixture(scope="module")
def server() -> Iterator[GatewayServer]:
    with GatewayServer() as running:
        yield running


@pytest.fixture
def gateway(server: GatewayServer, request: pytest.FixtureRequest) -> Iterator[GatewayForTest]:
    with GatewayForTest(server, request.node.name) as gateway:
        yield gateway


@pytest.fixture
def topic(gateway: GatewayForTest) -> str:
    return gateway.topic(queues=2)


def run(gateway: GatewayForTest, *arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, [arguments[0], "-n", gateway.nameserver, *arguments[1:]], input=text)


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def bodies(result: Result) -> set[object]:
    return {line["body"] for line in lines(result)}


def test_what_is_produced_is_printed_by_tail_and_consume(gateway: GatewayForTest, topic: str) -> None:
    sent = lines(run(gateway, "produce", topic, text=LINES))
    read = lines(run(gateway, "tail", topic, "--from", "earliest", "--no-follow"))
    consumed = lines(run(gateway, "consume", topic, "--group", gateway.group(), "--from", "earliest", "--count", "10"))
    assert len(sent) == len(read) == len(consumed) == 10
    assert {line["msg_id"] for line in sent} == {line["msg_id"] for line in read}
    assert {line["body"] for line in consumed} == {f"line {n}" for n in range(10)}
    for queue in (0, 1):
        offsets = [line["offset"] for line in sent if line["queue"] == queue]
        assert offsets == list(range(len(offsets)))


def test_tail_begins_where_it_is_told_and_filters(gateway: GatewayForTest, topic: str) -> None:
    run(gateway, "produce", topic, "--quiet", text=LINES)
    every = ("tail", topic, "--from", "1h", "--no-follow")
    assert bodies(run(gateway, *every, "--tag", "odd")) == {f"line {n}" for n in (1, 3, 5, 7, 9)}
    assert bodies(run(gateway, *every, "--key", "k4")) == {"line 4"}
    assert bodies(run(gateway, *every, "--grep", "line [23]")) == {"line 2", "line 3"}
    assert len(lines(run(gateway, *every, "--count", "3"))) == 3
    assert len(lines(run(gateway, "tail", topic, "--last", "2", "--no-follow"))) == 4
    assert lines(run(gateway, "tail", topic, "--no-follow")) == []
    (all_of_one,) = lines(run(gateway, *every, "--key", "k4", "--all-properties"))
    assert "UNIQ_KEY" in str(all_of_one["properties"])


def test_a_group_goes_on_where_it_stopped(gateway: GatewayForTest, topic: str) -> None:
    run(gateway, "produce", topic, "--quiet", text=LINES)
    consume = ("consume", topic, "--group", gateway.group())
    first = bodies(run(gateway, *consume, "--from", "earliest", "--count", "4"))
    rest = bodies(run(gateway, *consume, "--idle", "0.5"))
    assert len(first) == 4
    assert first | rest == {f"line {n}" for n in range(10)}
    assert not first & rest


def test_a_group_gets_only_its_tags_and_prints_only_what_is_asked_for(gateway: GatewayForTest, topic: str) -> None:
    run(gateway, "produce", topic, "--quiet", text=LINES)
    consume = ("consume", topic, "--group", gateway.group(), "--from", "earliest", "--idle", "0.5")
    assert bodies(run(gateway, *consume, "--tag", "even", "--grep", "[46]")) == {"line 4", "line 6"}
    assert lines(run(gateway, *consume, "--tag", "even")) == []


def test_text_lines_and_options_make_messages(gateway: GatewayForTest, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\n\ntwo\r\n")
    produce = ("produce", topic, "--format", "text", "--file", str(file), "--tag", "t", "--key", "k")
    lines(run(gateway, *produce, "--property", "host=web1", "--rate", "1000"))
    read = lines(run(gateway, "tail", topic, "--from", "earliest", "--no-follow"))
    assert {(line["body"], line["tags"], str(line["keys"]), str(line["properties"])) for line in read} == {
        (body, "t", "['k']", "{'host': 'web1'}") for body in ("one", "two")
    }


def test_a_rate_spaces_the_messages_out(gateway: GatewayForTest, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    due: list[float] = []
    monkeypatch.setattr(importlib.import_module("gateway.cli.clients.produce"), "_wait_until", due.append)
    sent = lines(run(gateway, "produce", topic, "--format", "text", "--rate", "4", text="one\n\ntwo\nthree\n"))
    assert len(sent) == 3
    assert [after - before for before, after in pairwise(due)] == pytest.approx([0.25, 0.25])


def test_point_9_an_interrupted_produce_tells_what_it_has_sent(
    gateway: GatewayForTest, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
        yield 1, next(lines)
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("gateway.cli.clients.produce"), "_numbered", interrupted)
    result = run(gateway, "produce", topic, text=LINES)
    assert (result.exit_code, result.stderr) == (1, "Error: interrupted after 1 messages\n")
    assert result.stdout.count("msg_id") == 1


def test_a_line_that_fails_is_named_and_the_others_are_sent(gateway: GatewayForTest, topic: str) -> None:
    result = run(gateway, "produce", topic, text='{"body": "a"}\nno\n{"body": "b"}\n')
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 2
    assert "Error: line 2: message refused: line is not JSON" in result.stderr
    assert "1 of 3 messages were not sent" in result.stderr


def test_point_21_many_lines_that_fail_alike_are_a_summary(gateway: GatewayForTest, topic: str) -> None:
    result = run(gateway, "produce", topic, "--quiet", text='{"body": "a"}\n' + "no\n" * 200)
    assert result.exit_code == 1
    said = result.stderr.splitlines()
    assert len(said) == 8
    assert said[0].startswith("Error: line 2: message refused: line is not JSON")
    assert said[-2:] == [
        "Error: 195 more lines failed like line 2: 7-201",
        "Error: 200 of 201 messages were not sent",
    ]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "error"),
    [
        (["tail", "no_such_topic"], 1, "Error: no route for topic 'no_such_topic'"),
        (["consume", "t", "--group", "not a name"], 2, "Error: message refused: group 'not a name'"),
        (["consume", "t", "--group", "g", "--sql", "a=1", "--tag", "b"], 2, "--sql and --tag exclude each other"),
        (["produce", "t", "--property", "x"], 2, "'x' is not NAME=VALUE"),
        (["produce", "t", "--file", "/no/such/file"], 2, "/no/such/file"),
        (["produce", "not a topic"], 2, "Error: message refused: topic 'not a topic'"),
        (["tail", "t", "--from", "now"], 2, "is not earliest, latest"),
    ],
)
def test_what_cannot_be_done_is_said_and_has_an_exit_code(
    gateway: GatewayForTest, arguments: list[str], exit_code: int, error: str
) -> None:
    result = run(gateway, *arguments, text="")
    assert result.exit_code == exit_code, result.output
    assert error in result.stderr


@pytest.mark.parametrize("command", ["produce", "consume", "tail"])
def test_the_help_of_each_command_has_examples(command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--help"])
    assert result.exit_code == 0
    assert f"rocketmq-gateway {command}" in result.output


def test_a_server_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(cli, ["tail", "-n", "127.0.0.1:1", "t"])
    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1" in result.stderr


def test_servers_load_nothing_of_the_client() -> None:
    code = "import gateway.cli.main, sys; sys.exit('gateway.client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
