"""Values as the text of ext fields, written and read as Java does.

``Integer.parseInt`` takes a sign and leading zeros but no spaces, no exponent and no underscores.
``Boolean.parseBoolean`` takes any case of ``true``, and takes everything else as false.
"""

from __future__ import annotations

import re
from typing import Final

_JAVA_INTEGER: Final = re.compile(r"[+-]?\d{1,40}", re.ASCII)


def parse_int(text: str, bits: int) -> int | None:
    """Return the signed number of ``bits`` bits that the text spells, or None if the text spells none."""
    if _JAVA_INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_bool(text: str) -> bool:
    """Return True for ``true`` in any case, otherwise False."""
    return text.lower() == "true"


def build_text(value: str | int) -> str:
    """Return a value as text: ``true`` and ``false``, decimal numbers, and enums of numbers as their number."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)
