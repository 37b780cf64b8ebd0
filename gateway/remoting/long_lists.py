"""The text of long lists and tables, made in pieces and never longer than a frame may be.

Writing an answer of many entries takes a second, and a reader cannot read an answer longer than a frame at all. The
generators here are works for ``Turns``: they yield between two pieces and refuse a text that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gateway.errors import RequestRefused
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from wire.bodies.fastjson import PreparedText, build_json, prepared_text
from wire.codes import ResponseCode
from wire.frame import MAX_FRAME_BYTES

MAX_LIST_BYTES: Final = MAX_FRAME_BYTES - 262_144
"""The bytes of a list's text; the rest of the frame is for the header and the other members of the body."""

BYTES_PER_TURN: Final = 262_144
"""The bytes of a list's text that one turn makes, if its entries are long."""
BYTES_PER_ENTRY: Final = 100
"""The bytes that count as one entry of an inner list, when the work of a turn is measured."""


def list_text(what: str, items: Iterable[Any], *, java_form: bool = True, advice: str = "") -> Work[PreparedText]:
    """Make the text of an array; ``items`` may do work of its own for each item.

    :param what: the name of the list in a refusal.
    :param advice: says what the reader can do instead.
    :raises RequestRefused: SYSTEM_ERROR, the text does not fit into a frame.
    """
    text = yield from _joined(what, (item_text(item, java_form=java_form) for item in items), advice)
    return PreparedText(f"[{text}]")


def table_text(
    what: str, members: Iterable[tuple[Any, Any]], *, java_form: bool = True, advice: str = ""
) -> Work[PreparedText]:
    """Make the text of an object of these keys and values in the given order.

    Parameters and errors are the same as those of ``list_text``.
    """
    text = yield from _joined(what, (member_text(key, value, java_form=java_form) for key, value in members), advice)
    return PreparedText(f"{{{text}}}")


def table_of_texts(
    what: str, members: Iterable[tuple[Any, Work[PreparedText]]], *, advice: str = ""
) -> Work[PreparedText]:
    """Make the text of an object whose values are lists or tables of their own.

    Parameters and errors are the same as those of ``list_text``.
    """
    made: list[tuple[Any, PreparedText]] = []
    total = entries = 0
    for key, work in members:
        text = yield from work
        total += len(text)
        if total > MAX_LIST_BYTES:
            raise too_long(what, advice)
        made.append((key, text))
        entries += 1 + len(text) // BYTES_PER_ENTRY
        if entries >= ENTRIES_PER_TURN:
            entries = 0
            yield
    return (yield from table_text(what, made, advice=advice))


def item_text(value: Any, *, java_form: bool = True) -> str:
    """Return the text of one item of a list."""
    return prepared_text(value, depth=None) if java_form else str(build_json(value, java_form=False), "utf-8")


def member_text(key: Any, value: Any, *, java_form: bool = True) -> str:
    """Return the text of one member of a table."""
    return item_text({key: value}, java_form=java_form)[1:-1]


def _joined(what: str, texts: Iterable[str], advice: str) -> Work[str]:
    pieces: list[str] = []
    some: list[str] = []
    total, size = 2, 0
    for text in texts:
        some.append(text)
        size += 1 + (len(text) if text.isascii() else len(text.encode("utf-8", "replace")))
        if len(some) < ENTRIES_PER_TURN and size < BYTES_PER_TURN:
            continue
        total += size
        if total > MAX_LIST_BYTES:
            raise too_long(what, advice)
        pieces.append(",".join(some))
        some, size = [], 0
        yield
    if total + size > MAX_LIST_BYTES:
        raise too_long(what, advice)
    if some:
        pieces.append(",".join(some))
    return ",".join(pieces)


def too_long(what: str, advice: str = "") -> RequestRefused:
    """Return the refusal of a list that is longer than ``MAX_LIST_BYTES``."""
    text = f"{what}: the text is longer than {MAX_LIST_BYTES} bytes and does not fit into one frame"
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"{text}; {advice}" if advice else text)
