"""The error tree."""

from __future__ import annotations

import pickle

import pytest

from wire import errors
from wire.errors import FieldError, LocalError, RemoteError, WireError

REMOTE_KINDS = ["FrameError", "HeaderError", "FieldError", "BodyError", "RecordError", "LayoutError"]


@pytest.mark.parametrize("name", REMOTE_KINDS)
def test_whatever_a_peer_or_a_file_breaks_is_a_remote_error(name: str) -> None:
    assert issubclass(getattr(errors, name), RemoteError)


def test_our_own_mistakes_are_not_remote_errors() -> None:
    assert issubclass(LocalError, WireError)
    assert not issubclass(LocalError, RemoteError)


def test_a_field_error_names_header_field_value_and_expectation() -> None:
    error = FieldError("PullMessageRequest", "queueId", "x" * 1000, "an integer of 32 bits")

    assert str(error) == (f"PullMessageRequest: field 'queueId' is {'x' * 64!r}, expected an integer of 32 bits")
    assert "is missing" in str(FieldError("PullMessageRequest", "queueId", None, "text"))


def test_a_field_error_can_cross_a_process_boundary() -> None:
    error = FieldError("A", "b", "c", "text")

    again = pickle.loads(pickle.dumps(error))

    assert (again.header, again.field, again.value, again.expected) == ("A", "b", "c", "text")
