r"""Java's ``.properties`` syntax, as ``java.util.Properties.load`` reads it.

Comments begin with ``#`` or ``!``. Key and value are separated by ``=``, ``:`` or blanks. A line that ends in an odd
number of backslashes continues in the next line. ``\t \n \r \f \uXXXX`` are escapes, and a backslash before any other
character is dropped.

A file is read as UTF-8, because a data directory may have a name in Chinese; Java assumes Latin-1. Some entries are
errors, because they are no configuration: an entry that is not UTF-8 (comments may be anything) or has a NUL, a key
without a separator, a value without a key, a broken ``\u``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gateway.errors import SettingsError

MAX_FILE_BYTES = 1_048_576
"""The largest configuration file in bytes; Apache's own list of keys has 20 KiB."""

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\:= \t\f]++)*)([ \t\f]*+[:=]?[ \t\f]*+)(.*)", re.DOTALL)
_NOT_TEXT = re.compile("[\0\udc80-\udcff]")
"""A NUL, or a byte that is not UTF-8."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertyLine(NamedTuple):
    """One entry of a file; ``line`` is the line where the entry begins, counted from 1."""

    key: str
    value: str
    line: int


def parse_properties_file(content: bytes, name: str) -> list[PropertyLine]:
    """Return all entries in order, including repeated keys.

    :raises SettingsError: the file is too long, or an entry is wrong; the error names ``name`` and the line.
    """
    return list(properties_of(content, name, MAX_FILE_BYTES))


def properties_of(content: bytes, name: str, limit: int) -> Iterator[PropertyLine]:
    """Yield the entries in order, each when it is read; raises the errors of ``parse_properties_file``."""
    if len(content) > limit:
        raise SettingsError(f"{name}: {len(content)} bytes is too long, limit {limit}")
    text = content.decode("utf-8-sig", "surrogateescape")
    for number, line in _logical_lines(text):
        yield _parse_entry(line, number, name)


def escape_property(key: str, value: str) -> str:
    """Return ``key=value`` as a line that reads back as the same two texts."""
    return f"{_escape(key, ':= ')}={_escape(value, '')}"


def _escape(text: str, also: str) -> str:
    escaped = text.replace("\\", "\\\\")
    for letter, character in _LETTERS.items():
        escaped = escaped.replace(character, f"\\{letter}")
    for character in also:
        escaped = escaped.replace(character, f"\\{character}")
    return f"\\{escaped}" if escaped.startswith(("#", "!", " ")) else escaped


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold an entry, continued lines joined, each with the number of its first line."""
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        yield first, "".join([*parts, line])
        parts = []
    if parts:
        yield first, "".join(parts)


def _parse_entry(line: str, number: int, name: str) -> PropertyLine:
    if _NOT_TEXT.search(line):
        raise SettingsError(f"{name}:{number}: is not UTF-8 text; give a text file with KEY=VALUE lines, in UTF-8")
    match = _KEY.fullmatch(line)
    # Every text matches but one that ends in a lone backslash, and those were joined with the next line.
    assert match is not None
    key, value = (_unescape(part, number, name) for part in match.group(1, 3))
    if not key or not match[2]:
        raise SettingsError(f"{name}:{number}: expected KEY=VALUE; begin the line with # if it is a comment")
    return PropertyLine(key, value, number)


def _unescape(text: str, number: int, name: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape == "u":
            raise SettingsError(f"{name}:{number}: \\u is not followed by four hexadecimal digits")
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _LETTERS.get(escape, escape)

    return _ESCAPE.sub(character, text) if "\\" in text else text
