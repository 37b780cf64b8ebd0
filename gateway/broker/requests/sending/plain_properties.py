"""Properties of plain messages, and of half messages, read by their common form.

    UNIQ_KEY 0x01 key 0x02 ending
    TRAN_MSG 0x01 true 0x02 UNIQ_KEY 0x01 key 0x02 ending

Stock producers write the unique key first, or directly after the mark of a half message. The ending is the same in most
of a producer's messages. A message is plain if its type is NORMAL and it goes where it is sent.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from wire.message.properties import PropertyName, parse_properties

MAX_KNOWN: Final = 256
"""The number of endings that are remembered; all of them are forgotten when one more comes."""
MAX_ENDING_CHARACTERS: Final = 512
"""The largest number of characters of an ending that is remembered."""

HALF_MARK: Final = "TRAN_MSG\x01true\x02"
"""The text before the unique key of a half message."""

_UNIQ_KEY: Final = PropertyName.UNIQ_KEY


class PlainProperties:
    """The meanings of endings, learned from the messages that have these endings.

    :param added: properties that every message gets.
    :param special: names of properties that a plain message never has in its ending.
    :param mark: the text before the unique key.
    :param learns: False if every text has to be parsed.
    :param takes: returns whether messages with the given properties of an ending are taken as plain; all are when left
        out.
    """

    __slots__ = ("_added", "_known", "_last", "_learns", "_marks", "_special", "_takes", "start")

    def __init__(
        self,
        added: Mapping[str, str],
        special: frozenset[str],
        *,
        learns: bool = True,
        mark: str = "",
        takes: Callable[[Mapping[str, str]], bool] | None = None,
    ) -> None:
        self._added = dict(added)
        self._marks = {**parse_properties(mark), _UNIQ_KEY: ""}
        self._special = special
        self.start = f"{mark}{_UNIQ_KEY}\x01"
        """The text before the unique key in the properties of a plain message."""
        self._takes = takes
        self._learns = learns
        self._known: dict[str, dict[str, str]] = {}  # empty: not plain
        self._last = ""

    def of(self, text: str) -> dict[str, str] | None:
        """Return the properties of a plain message, the added ones included; None if the text has to be parsed.

        ``text`` ends with 0x02 unless None is returned.
        """
        start = len(self.start)
        if not text.startswith(self.start):
            return None
        end = text.find("\x02", start)
        if end <= start:
            return None
        return self.of_key(text[start:end], text[end + 1 :])

    def of_key(self, key: str, ending: str) -> dict[str, str] | None:
        """Return what ``of`` returns for a text that consists of ``start``, a key, 0x02 and an ending."""
        known = self._known.get(ending)
        if known is None:
            known = self._learned(ending)
        if not known:
            return None
        properties = known.copy()
        properties[_UNIQ_KEY] = key
        return properties

    def _learned(self, ending: str) -> dict[str, str]:
        """Return the properties of an ending; empty for an ending that is new or not plain.

        An ending is learned once two messages in a row have it, because some endings never come again.
        """
        if not self._learns or ending != self._last or len(ending) > MAX_ENDING_CHARACTERS:
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
