"""Properties of plain messages, and of half messages, read by what they have in common.

    UNIQ_KEY 0x01 key 0x02 ending
    TRAN_MSG 0x01 true 0x02 UNIQ_KEY 0x01 key 0x02 ending

Stock producers write the unique key first, or behind the mark of a half message, and an ending that is the same in most
of their messages. Messages are plain when they are of the type NORMAL and go where they are sent.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from wire.message.properties import PropertyName, parse_properties

MAX_KNOWN: Final = 256
"""Endings that are remembered; all are forgotten when there are more."""
MAX_ENDING_CHARACTERS: Final = 512
"""Longer ones are not remembered."""

HALF_MARK: Final = "TRAN_MSG\x01true\x02"
"""Before the unique key of a half message."""

_UNIQ_KEY: Final = PropertyName.UNIQ_KEY


class PlainProperties:
    """What endings mean, learned from the messages that have them.

    :param added: properties that every message gets.
    :param special: names that no such message has in its ending.
    :param mark: what stands before the unique key.
    :param takes: whether messages with the properties of an ending are such ones; all of them when left out.
    """

    __slots__ = ("_added", "_known", "_last", "_marks", "_special", "_takes", "start")

    def __init__(
        self,
        added: Mapping[str, str],
        special: frozenset[str],
        *,
        mark: str = "",
        takes: Callable[[Mapping[str, str]], bool] | None = None,
    ) -> None:
        self._added = dict(added)
        self._marks = {**parse_properties(mark), _UNIQ_KEY: ""}
        self._special = special
        self.start = f"{mark}{_UNIQ_KEY}\x01"
        """What stands before the unique key."""
        self._takes = takes
        self._known: dict[str, dict[str, str]] = {}  # empty: not plain
        self._last = ""

    def of(self, text: str) -> dict[str, str] | None:
        """The properties of such a message, those that are added among them; None when it has to be looked at.

        ``text`` then ends with 0x02.
        """
        start = len(self.start)
        if not text.startswith(self.start):
            return None
        end = text.find("\x02", start)
        if end <= start:
            return None
        return self.of_key(text[start:end], text[end + 1 :])

    def of_key(self, key: str, ending: str) -> dict[str, str] | None:
        """The same of ``start``, a key, 0x02 and an ending."""
        known = self._known.get(ending)
        if known is None:
            known = self._learned(ending)
        if not known:
            return None
        properties = known.copy()
        properties[_UNIQ_KEY] = key
        return properties

    def _learned(self, ending: str) -> dict[str, str]:
        """What an ending means, once two messages one after the other have had it: some are never the same."""
        if ending != self._last or len(ending) > MAX_ENDING_CHARACTERS:
            self._last = ending
            return {}
        properties = parse_properties(ending)
        is_plain = (
            (not ending or ending.endswith("\x02"))
            and _UNIQ_KEY not in properties
            and self._special.isdisjoint(properties)
            and (self._takes is None or self._takes(properties))
        )
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        known = self._known[ending] = {**self._marks, **properties, **self._added} if is_plain else {}
        return known
