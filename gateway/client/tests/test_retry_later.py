"""Tests of the request to get messages again."""

from __future__ import annotations

import pytest

from gateway.client.retry_later import RetryLater


def test_it_holds_the_level_and_the_messages() -> None:
    request = RetryLater(3)
    assert (request.delay_level, request.messages) == (3, None)
    with pytest.raises(RetryLater, match="delay level 3"):
        raise request
