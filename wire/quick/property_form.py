"""The form of a batch's property strings: strings of one producer mostly differ only in the unique key.

Such strings have one *form*. One string is parsed. The others are only compared with the form, which takes comparisons
of bytes instead of a dictionary for each string.
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
    """The form of a property string, taken from a sample. A plain class, because every message of a batch uses one.

    ``keys``, ``tag`` and its ``code`` are equal in all messages of the form. ``names_light_queues`` is True if the
    messages name light queues.

    :param raw: the property string of the sample.
    :param own: the decoded properties of the sample.
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
        """Return the unique key in a property string, "" if there is no key; None if the string has another form."""
        if len(raw) != self._length or not raw.startswith(self._head):
            return None
        if self._start < 0:
            return self._key
        key = raw[self._start : self._end]
        # Letters and digits: nothing that would end the value, or the name of another.
        return key.decode() if key.isalnum() and raw.endswith(self._tail) else None


def _key_start(raw: bytes, key: str) -> int:
    """Return the start of the unique key's value, which alone may differ; −1 if the string is not plain enough."""
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
