"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.spelling import nearest

LEAST_ALIKE = 0.6


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'topic'?"``, or an empty text if no known word is near."""
    near = nearest(word, known, LEAST_ALIKE)
    return f"; did you mean {near!r}?" if near else ""
