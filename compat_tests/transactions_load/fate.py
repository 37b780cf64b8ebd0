"""The fate of a transaction by its number: the same arithmetic as in `RandomTransactions.java`."""

from __future__ import annotations

from enum import StrEnum

_NEVER_PERCENT = 1
_COMMIT_BELOW_PERCENT = 60
_NUMBER_FACTOR = 0x9E3779B97F4A7C15
_SALT_FACTOR = 0xBF58476D1CE4E5B9
_MIX_FACTOR = 0xD6E8FEB86659FD93
_MASK = (1 << 64) - 1


class Fate(StrEnum):
    """The final decision of the program that owns the transaction."""

    COMMIT = "commit"
    ROLLBACK = "roll back"
    NEVER = "never decided"


def fate(number: int) -> Fate:
    drawn = _percent(number, 1)
    if drawn < _NEVER_PERCENT:
        return Fate.NEVER
    return Fate.COMMIT if drawn < _COMMIT_BELOW_PERCENT else Fate.ROLLBACK


def _percent(number: int, salt: int) -> int:
    mixed = (number * _NUMBER_FACTOR + salt * _SALT_FACTOR) & _MASK
    for _ in range(2):
        mixed = (mixed ^ mixed >> 32) * _MIX_FACTOR & _MASK
    return (mixed >> 33) % 100
