"""Tags: the hash a consume queue keeps for a message's tag, and the expression a consumer subscribes with.

A broker compares hashes only; two tags with one hash both pass and the client sorts them out by text.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from dataclasses import dataclass

from wire.errors import BodyError
from wire.message.java_hash import java_string_hash

MATCH_ALL = "*"
"""The expression that takes every message, tagged or not (upstream ``SubscriptionData.SUB_ALL``)."""

_SEPARATOR = "||"
MAX_CACHED_TAGS = 1024
"""Tags whose codes are remembered; the cache is emptied when it is full."""

_codes: dict[str, int] = {}
# Java's String.trim() cuts every character up to the space, and no other white space.
_TRIMMED = "".join(map(chr, range(33)))


def tags_code(tag: str | None) -> int:
    """The code of a message's tag in its consume queue: −2^31 … 2^31−1; 0 for no tag."""
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
    """What a consumer subscribed to: everything, or the messages with one of these tags."""

    match_all: bool
    tags: frozenset[str]
    codes: frozenset[int]

    def accepts_code(self, code: int) -> bool:
        """Whether a message with this tags code may be delivered."""
        return self.match_all or code in self.codes


EVERYTHING = TagExpression(match_all=True, tags=frozenset(), codes=frozenset())


def parse_tag_expression(text: str | None) -> TagExpression:
    """``A || B`` as its tags; none, empty and ``*`` accept everything.

    Parts are trimmed and empty ones dropped. White space alone is, as upstream, an expression that accepts
    nothing.

    :raises BodyError: nothing but separators (upstream ``FilterAPI.buildSubscriptionData``: "subString
        split error").
    """
    if text is None or text in ("", MATCH_ALL):
        return EVERYTHING
    parts = text.split(_SEPARATOR)
    if not any(parts):
        raise BodyError(f"tag expression {text[:64]!r} holds no tag")
    tags = frozenset(tag for part in parts if (tag := part.strip(_TRIMMED)))
    return TagExpression(match_all=False, tags=tags, codes=frozenset(map(java_string_hash, tags)))
