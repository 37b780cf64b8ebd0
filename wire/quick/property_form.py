"""What the property strings of a batch have in common: those of one producer mostly differ in the unique key only.

Such strings are of one *form*: what is in them is found out once, and of all others only that they are of the form,
which takes comparisons of bytes instead of a dictionary each.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wire.message.properties import PropertyName
from wire.message.tags import tags_code

_PAIR_END: Final = 2
_UNIQUE_KEY: Final = PropertyName.UNIQ_KEY
_KEYS: Final = PropertyName.KEYS
_TAGS: Final = PropertyName.TAGS
_LIGHT_QUEUES: Final = PropertyName.INNER_MULTI_DISPATCH
_KEY_MARK: Final = f"{_UNIQUE_KEY}\x01".encode()


class PropertyForm:
    """The form of a property string, taken from one of them. A plain class: it is asked for every message of a batch.

    ``keys``, ``tag`` and its ``code`` are those of all messages of the form; ``names_light_queues``: they are to be
    put into light queues, too.

    :param raw: the string.
    :param own: the same decoded.
    """

    __slots__ = (
        "_end",
        "_head",
        "_key",
        "_length",
        "_start",
        "_tail",
        "code",
        "keys",
        "names_light_queues",
        "tag",
    )

    def __init__(self, raw: bytes, own: Mapping[str, str]) -> None:
        self.keys: str | None = own.get(_KEYS)
        self.tag: str | None = own.get(_TAGS)
        self.code = tags_code(self.tag)
        self.names_light_queues = _LIGHT_QUEUES in own
        key = own.get(_UNIQUE_KEY)
        self._key = key or ""
        self._length = len(raw)
        start = -1 if key is None else _key_start(raw, key)
        self._start = start
        self._end = end = start + len(self._key)
        # Without a key that can be cut out, only the very same string is of the form.
        self._head = raw if start < 0 else raw[:start]
        self._tail = b"" if start < 0 else raw[end:]

    def key_in(self, raw: bytes) -> str | None:
        """The unique key of a message, "" when it has none; None: it is not of this form."""
        if len(raw) != self._length or not raw.startswith(self._head):
            return None
        if self._start < 0:
            return self._key
        key = raw[self._start : self._end]
        # Letters and digits: nothing that would end the value, or the name of another.
        return key.decode() if key.isalnum() and raw.endswith(self._tail) else None


def _key_start(raw: bytes, key: str) -> int:
    """Where the value of the unique key starts that alone may differ; −1 when the string is not as plain as that."""
    at = raw.find(_KEY_MARK)
    if at < 0 or (at > 0 and raw[at - 1] != _PAIR_END) or raw.count(_KEY_MARK) != 1:
        return -1
    if not key.isascii() or not key.isalnum():
        return -1
    start = at + len(_KEY_MARK)
    end = start + len(key)
    if raw[start:end] != key.encode() or (end < len(raw) and raw[end] != _PAIR_END):
        return -1
    return start
