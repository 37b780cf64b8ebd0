"""The answer of a page that is served over HTTP, and the type of functions that make such answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

PLAIN_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer of a page."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN_TEXT


Answered: TypeAlias = Callable[[PageAnswer], None]
Page: TypeAlias = Callable[[Answered], None]
"""A function that calls back with its answer, now or in a later turn."""


def text_answer(status: HTTPStatus, text: str) -> PageAnswer:
    """Return an answer of one line for people."""
    return PageAnswer(status, f"{text}\n".encode())
