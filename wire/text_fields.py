"""Values as the text of ext fields, and back: the way Java prints them and the way Java reads them.

``Integer.parseInt`` takes a sign and leading zeros but no spaces, no exponent and no underscores;
``Boolean.parseBoolean`` takes any case of ``true`` and holds everything else for false.
"""

from __future__ import annotations

import re
from typing import Final

_JAVA_INTEGER: Final = re.compile(r"[+-]?\d{1,40}", re.ASCII)


def parse_int(text: str, bits: int) -> int | None:
    """The signed number of ``bits`` bits that ``text`` spells, or None when it spells none."""
    if _JAVA_INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_bool(text: str) -> bool:
    """True for ``true`` in any case, else false."""
    return text.lower() == "true"


def build_text(value: str | int) -> str:
    """The text of a value: ``true`` and ``false``, decimal numbers, enums of numbers as their number."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)
