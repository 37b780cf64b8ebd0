"""Printed texts of others: they cannot move the cursor, forge a line or stop the command."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from gateway.cli import output
from gateway.cli.output import say, say_json, say_lines

BAD = "\x1b[2J\x7f\x9b\u2028\u202e\ud800"
COMMANDS = Path(output.__file__).parent


def test_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"key {BAD}\nforged")
    say("wrong", err=True)
    shown = capsys.readouterr()
    assert shown.out == r"key \u001b[2J\u007f\u009b\u2028\u202e\ud800\u000aforged" + "\n"
    assert shown.err == "wrong\n"


def test_several_lines_stay_several(capsys: pytest.CaptureFixture[str]) -> None:
    say_lines("Error: one\n\ttwo\x9b", err=True)
    assert capsys.readouterr().err == "Error: one\n\ttwo\\u009b\n"


def test_json_stays_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    for indent in (None, 2):
        say_json({BAD: ["中", BAD]}, indent=indent)
        shown = capsys.readouterr().out
        assert shown.replace("\n", "").isprintable()
        assert json.loads(shown) == {BAD: ["中", BAD]}


def test_no_command_prints_by_itself() -> None:
    for path in COMMANDS.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert path.name == "output.py" or not calls & {"click.echo", "click.secho", "print"}, path
