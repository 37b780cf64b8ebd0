"""The tokens with which slaves of ours enter the port for slaves: each counts once, for some seconds, for one host.

A slave gets its token as the answer to a signed request, so a token proves an account of an administrator. If that
request came over TLS, the token counts over TLS only, and for the same certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hmac import compare_digest
from operator import attrgetter
from typing import NamedTuple

from gateway.shares import oldest_of_greediest
from wire.replication.entry import TOKEN_BYTES

TOKEN_S = 10.0
"""The time in seconds for which a token counts: a slave connects as soon as it has one."""
MAX_TOKENS = 64
"""The number of tokens that count at once."""


class Token(NamedTuple):
    """A token that was given out."""

    value: bytes
    host: str
    """The address of the slave that asked."""
    broker_id: int
    ends_s: float
    shown: bytes | None
    """The fingerprint of the certificate that the slave showed, empty if it showed none; None: it asked without TLS."""


def matching(given: Iterable[Token], value: bytes, host: str, now_s: float, shown: bytes | None) -> Token | None:
    """Return the token that a host shows; None if it is no token, of another host or certificate, or too old.

    The time that this takes tells nothing about the tokens.
    """
    found: Token | None = None
    for token in given:
        is_equal = compare_digest(token.value, value)
        is_same = token.host == host and (token.shown is None or token.shown == shown)
        if is_equal and is_same and now_s < token.ends_s:
            found = token
    return found


class EntryTokens:
    """The tokens that have been given out and not been used.

    :param random_bytes: returns as many bytes as asked for that nobody can guess.
    """

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._given: list[Token] = []

    def __len__(self) -> int:
        return len(self._given)

    def give(self, host: str, broker_id: int, now_s: float, shown: bytes | None = None) -> bytes:
        """Return a new token; if there are too many, the oldest of the host with most tokens counts no more."""
        self._given = [token for token in self._given if now_s < token.ends_s]
        if len(self._given) >= MAX_TOKENS:
            self._given.remove(oldest_of_greediest(self._given, attrgetter("host")))
        value = self._random_bytes(TOKEN_BYTES)
        self._given.append(Token(value, host, broker_id, now_s + TOKEN_S, shown))
        return value

    def redeem(self, value: bytes, host: str, now_s: float, shown: bytes | None = None) -> int | None:
        """Return the broker id for which a host got a token, which counts no more; None if the token is none."""
        found = matching(self._given, value, host, now_s, shown)
        if found is None:
            return None
        self._given.remove(found)
        return found.broker_id
