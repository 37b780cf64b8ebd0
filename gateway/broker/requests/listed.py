"""The names that a header field lists, separated by a character: no more of them than one request may name."""

from __future__ import annotations

from typing import Final

from gateway.errors import RequestRefused
from wire.codes import ResponseCode

MAX_LISTED: Final = 10_000
"""The most names of one field; the text between two separators counts, even if it is empty."""


def listed(text: str | None, separator: str, field: str) -> list[str]:
    """Return the names of a field in their order, without empty ones; none if the field is not given.

    :param field: the wire name of the field, for the refusal.
    :raises RequestRefused: INVALID_PARAMETER: there are more than ``MAX_LISTED`` names.
    """
    names = (text or "").split(separator, MAX_LISTED)
    if len(names) > MAX_LISTED:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"{field} lists more than {MAX_LISTED} names, the limit; ask with several requests",
        )
    return [name for name in names if name]
