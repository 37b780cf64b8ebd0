"""Recall handles: as Java makes them, and nothing but errors for what is none."""

from __future__ import annotations

import base64
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import FieldError
from wire.message.recall_handle import RecallHandle, parse_recall_handle
from wire.tests.message.strategies import QUICK

HANDLE = RecallHandle("orders", "broker-a", "1700000000001", "7F000001")
TEXT = "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgN0YwMDAwMDE="
words = st.text(st.characters(codec="utf-8", exclude_characters=" "), max_size=40)


def test_a_handle_is_the_text_that_java_makes() -> None:
    assert HANDLE.build() == TEXT
    assert parse_recall_handle(TEXT) == HANDLE
    assert parse_recall_handle(TEXT.rstrip("=")) == HANDLE


@QUICK
@given(words, words, words, words)
def test_handles_come_back(topic: str, broker: str, timestamp: str, key: str) -> None:
    handle = RecallHandle(topic, broker, timestamp, key)
    assert parse_recall_handle(handle.build()) == handle


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no handle",
        "ü",
        "A",
        base64.urlsafe_b64encode(b"v1 orders broker-a 1700000000001").decode(),
        base64.urlsafe_b64encode(b"v2 t b 1 k").decode(),
        base64.urlsafe_b64encode(b"v1 t b 1 k more").decode(),
        base64.urlsafe_b64encode(b"v1 t b \xff k").decode(),
    ],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="recallHandle"):
        parse_recall_handle(text)


@QUICK
@given(st.text(max_size=60))
def test_any_text_is_a_handle_or_a_field_error(text: str) -> None:
    with suppress(FieldError):
        assert parse_recall_handle(text).build()


def test_megabytes_of_spaces_are_not_split_into_a_million_words() -> None:
    text = base64.b64encode(b" " * 999_999).decode()
    tracemalloc.start()
    try:
        with pytest.raises(FieldError, match="recallHandle"):
            parse_recall_handle(text)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20, "the text a few times, and no list of its words"
    finally:
        tracemalloc.stop()
