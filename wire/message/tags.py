"""Tags: the hash that a consume queue keeps for a message's tag, and the expression by which a consumer subscribes.

A broker compares only hashes. Two tags with one hash both pass, and the client then compares the texts.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from dataclasses import dataclass

from wire.errors import BodyError
from wire.message.java_hash import java_string_hash

MATCH_ALL = "*"
"""The expression that accepts every message, tagged or not (upstream ``SubscriptionData.SUB_ALL``)."""

_SEPARATOR = "||"
MAX_CACHED_TAGS = 1024
"""The most tags whose codes are remembered; the cache is emptied when it is full."""

_codes: dict[str, int] = {}
# Java's String.trim() cuts every character up to the space, and no other white space.
_TRIMMED = "".join(map(chr, range(33)))


def tags_code(tag: str | None) -> int:
    """Return the code of a message's tag in its consume queue: −2^31 … 2^31−1; 0 for no tag."""
    if not tag:
        return 0
    code = _codes.get(tag)
    if code is None:
        if len(_codes) >= MAX_CACHED_TAGS:
            _codes.clear()
        code = _codes[tag] = java_string_hash(tag)
    return code


@dataclass(frozen=True, slots=True)
class TagExpression:
    """The subscription of a consumer: everything, or the messages with one of these tags."""

    match_all: bool
    tags: frozenset[str]
    codes: frozenset[int]

    def accepts_code(self, code: int) -> bool:
        """Return whether a message with this tags code may be delivered."""
        return self.match_all or code in self.codes


EVERYTHING = TagExpression(match_all=True, tags=frozenset(), codes=frozenset())


def parse_tag_expression(text: str | None) -> TagExpression:
    """Read ``A || B`` as its tags; None, an empty text and ``*`` accept everything.

    Parts are trimmed, and empty parts are dropped. An expression of white space only accepts nothing, as upstream.

    :raises BodyError: the text has only separators (upstream ``FilterAPI.buildSubscriptionData``: "subString split
        error").
    """
    if text is None or text in ("", MATCH_ALL):
        return EVERYTHING
    parts = text.split(_SEPARATOR)
    if not any(parts):
        raise BodyError(f"tag expression {text[:64]!r} holds no tag")
    tags = frozenset(tag for part in parts if (tag := part.strip(_TRIMMED)))
    return TagExpression(match_all=False, tags=tags, codes=frozenset(map(java_string_hash, tags)))
