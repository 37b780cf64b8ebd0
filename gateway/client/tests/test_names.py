"""Tests of what is a name."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.client.errors import MessageRefused
from gateway.client.names import check_group, check_topic


def test_a_topic_may_have_127_characters_and_a_group_255() -> None:
    check_topic("t" * 127)
    check_group("g" * 255)
    with pytest.raises(MessageRefused, match="128 characters: it takes 1 to 127"):
        check_topic("t" * 128)
    with pytest.raises(MessageRefused, match="256 characters: it takes 1 to 255"):
        check_group("g" * 256)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "a\n", "Zürich", b"bytes", None, 5])
def test_what_is_no_name_is_refused_and_said_of_what(name: Any) -> None:
    with pytest.raises(MessageRefused, match="refused: topic"):
        check_topic(name)
    with pytest.raises(MessageRefused, match="refused: group"):
        check_group(name)
