"""A setting as somebody wrote it, before it is judged."""

from __future__ import annotations

from typing import NamedTuple


class WrittenSetting(NamedTuple):
    """A key and a text that somebody wrote, with the place."""

    key: str
    text: str
    source: str
