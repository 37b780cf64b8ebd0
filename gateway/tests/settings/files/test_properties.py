"""Property files are read as Java reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import SettingsError
from gateway.settings.files import properties
from gateway.settings.files.properties import escape_property, parse_properties_file


def pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value, _ in parse_properties_file(text.encode(), "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1", [("a", "1")]),
        ("a:1", [("a", "1")]),
        ("a 1", [("a", "1")]),
        ("a\t:\t1", [("a", "1")]),
        ("  a=1", [("a", "1")]),
        ("a==1", [("a", "=1")]),
        ("a=b:c=d", [("a", "b:c=d")]),
        ("a=", [("a", "")]),
        ("a=1 ", [("a", "1 ")]),
        ("# c\n! c\n\n   \n a=1", [("a", "1")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("a\\=b\\:c\\ d=1", [("a=b:c d", "1")]),
        ("a=\\t\\n\\r\\f\\\\\\q\\u4e2d", [("a", "\t\n\r\f\\q中")]),
        ("a=1\\\n   2\\\n3", [("a", "123")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\\n# no comment", [("a", "1# no comment")]),
        ("a=1\\", [("a", "1")]),
        ("# c \\\na=1", [("a", "1")]),
        ("messageDelayLevel=1s 5s", [("messageDelayLevel", "1s 5s")]),
        ("", []),
    ],
)
def test_a_text_gives_the_entries_that_java_sees(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_an_entry_knows_the_line_it_begins_in() -> None:
    entries = parse_properties_file(b"# c\na=1\\\n2\n\nb=3", "f")
    assert [(entry.key, entry.line) for entry in entries] == [("a", 2), ("b", 5)]


def test_an_entry_is_utf_8_and_a_comment_anything() -> None:
    assert parse_properties_file("\ufeffa=中".encode(), "f")[0][:2] == ("a", "中")
    assert parse_properties_file(b"# \xe9\x00\na=1", "f")[0][:2] == ("a", "1")


@pytest.mark.parametrize("entry", [b"b=\xe9", b"\xff\xfeb=1", b"b=\x00", "a=中".encode("utf-16")])
def test_an_entry_that_is_no_utf_8_text_names_file_and_line(entry: bytes) -> None:
    with pytest.raises(SettingsError, match=r"^broker.conf:2: is not UTF-8 text; give a text file"):
        parse_properties_file(b"a=1\n" + entry, "broker.conf")


@pytest.mark.parametrize("entry", ["flushDiskType", "=1", ":", "<xml/>"])
def test_an_entry_without_key_or_separator_names_file_and_line(entry: str) -> None:
    with pytest.raises(SettingsError, match=r"^broker.conf:2: expected KEY=VALUE; begin the line with #"):
        parse_properties_file(f"a=1\n{entry}\n".encode(), "broker.conf")


def test_a_broken_unicode_escape_names_file_and_line() -> None:
    with pytest.raises(SettingsError, match=r"broker.conf:2: \\u is not followed by four"):
        parse_properties_file(b"a=1\nb=\\u12g4", "broker.conf")


def test_a_file_of_the_wrong_kind_is_refused_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "MAX_FILE_BYTES", 3)
    with pytest.raises(SettingsError, match="4 bytes is too long, limit 3"):
        parse_properties_file(b"a=12", "f")


@given(st.text(min_size=1), st.text())
def test_an_escaped_entry_reads_back(key: str, value: str) -> None:
    written = escape_property(key, value).encode("utf-8", "surrogatepass")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in key + value):
        return
    assert [entry[:2] for entry in parse_properties_file(written, "f")] == [(key, value)]


@given(st.binary(max_size=200))
def test_any_bytes_give_entries_or_a_configuration_error(content: bytes) -> None:
    try:
        entries = parse_properties_file(content, "f")
    except SettingsError:
        return
    assert all(entry.line >= 1 for entry in entries)
