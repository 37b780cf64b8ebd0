"""Nothing of a peer's text breaks a line, moves a cursor or turns the direction of what follows."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable

import pytest

from wire.safe_text import safe_json, safe_lines, safe_text

UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
UNSAFE = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in UNSAFE_CATEGORIES]


@pytest.mark.parametrize("make_safe", [safe_text, safe_json])
def test_every_control_format_separator_and_half_character_is_escaped(make_safe: Callable[[str], str]) -> None:
    shown = make_safe("".join(UNSAFE))
    assert shown.isascii()
    assert shown.isprintable()


def test_what_is_no_control_stays_as_it_is() -> None:
    text = "plain = 'quoted' \\ ä 中文 🙂 é"
    assert safe_text(text) == text
    assert safe_lines(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", r"a\u000ab\u0009c"),
        ("\x1b[2J", r"\u001b[2J"),
        ("\x7f\x85\x9b", r"\u007f\u0085\u009b"),
        ("\u2028\u2029\u202e\ufeff", r"\u2028\u2029\u202e\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\udb40\udc01"),
    ],
)
def test_the_escapes_are_those_of_json(text: str, shown: str) -> None:
    assert safe_text(text) == shown
    assert json.loads(f'"{shown}"') == text


def test_lines_keep_their_breaks_and_tabs() -> None:
    assert safe_lines("a\tb\n\x9bc\r\n") == "a\tb\n\\u009bc\\u000d\n"


def test_json_stays_the_same_value() -> None:
    value = {"".join(UNSAFE): ["".join(UNSAFE), {"中": 1}]}
    for indent in (None, 2):
        # A pair of halves becomes one character, in JSON as in UTF-16; alone they stay what they are.
        assert json.loads(safe_json(value, indent)) == json.loads(json.dumps(value))


def test_a_long_text_is_cut_and_says_so() -> None:
    assert safe_text("x" * 100, 10) == "x" * 10 + "…"
