"""Changes of a YAML text at the places of its nodes; everything else stays as it is, comments and order included.

The text that comes out has to be read again by the caller, who compares it with what was asked. So a form of YAML that
is not thought of here is a refused change, never a wrong file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gateway.access.plain.parsing import Node, Parsing, has_names, is_list, is_mapping, is_null, line_of

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./|=%$-]*")
"""Texts that may be written without quotes."""
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 does not take as texts."""


def written(text: str) -> str:
    """Return a text as YAML, in quotes where they are needed."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


class _Change(NamedTuple):
    """A piece of the text and what replaces it."""

    start: int
    rank: int
    """The order of changes that start at one place: new entries of a list, new keys, a piece that is replaced."""
    end: int
    new: str


class Editing:
    """Collects changes of one text.

    :raises ValueError: the text has a form that is not changed here; the error's text is the reason.
    """

    def __init__(self, parsing: Parsing) -> None:
        self._text = parsing.text
        self._newline = "\r\n" if "\r\n" in self._text else "\n"
        self._changes: list[_Change] = []
        self.root: Node = None if is_null(parsing.root) else parsing.root
        if self.root is not None and has_names(self._text):
            raise ValueError("it names values with & and repeats them with *")
        if self.root is not None:
            _refuse_flow(self.root)

    def result(self) -> str:
        """Return the changed text."""
        pieces, place = [""], 0
        for change in sorted(self._changes, key=lambda change: change[:2]):
            pieces += [self._text[place : change.start]] if change.start > place else []
            if change.start == change.end and pieces[-1] and not pieces[-1].endswith("\n"):
                pieces.append(self._newline)
            pieces.append(change.new)
            place = change.end
        return "".join([*pieces, self._text[place:]])

    def put(self, mapping: Node, lines: Sequence[str]) -> None:
        """Set a key of a mapping; None for a file without keys.

        :param lines: the key with its value, without the mapping's indentation.
        """
        if mapping is None:
            self._insert(len(self._text), lines, is_key=True)
            return
        _refuse_flow(mapping)
        key = lines[0].partition(":")[0]
        indent = " " * mapping.value[0][0].start_mark.column
        for name, value in mapping.value:
            if name.value == key:
                if not isinstance(value.value, str) or lines != [f"{key}: {written(value.value)}"]:
                    new = f"{self._newline}{indent}".join(lines)
                    self._replace(name.start_mark.index, self._end(value), new)
                return
        self._insert(self._end(mapping), [indent + line for line in lines], is_key=True)

    def put_list(self, mapping: Node, key: str, values: Sequence[str], name_of: Callable[[str], str]) -> None:
        """Set a key to a list; entries with the same name keep their line.

        :param name_of: returns the part of an entry that makes two entries the same.
        """
        node = member(mapping, key)
        if not is_list(node) or node.flow_style or not node.value:
            self.put(mapping, [f"{key}:", *(f"- {written(value)}" for value in values)])
            return
        left = {name_of(value): value for value in values}
        for item in node.value:
            value = left.pop(name_of(item.value), None)
            if value is None:
                self.remove(item)
            elif value != item.value:
                self._replace(item.start_mark.index, self._end(item), written(value))
        if left:
            self.append(node, [f"- {written(value)}" for value in left.values()])

    def append(self, node: Node, lines: Sequence[str]) -> None:
        """Add lines after the last entry of a list, which has one."""
        _refuse_flow(node)
        indent = " " * node.start_mark.column
        self._insert(self._end(node), [indent + line for line in lines], is_key=False)

    def remove(self, item: Node) -> None:
        """Remove an entry of a list with its lines."""
        dash = self._text.rfind("-", 0, item.start_mark.index)
        if dash < 0 or self._text[dash + 1 : item.start_mark.index].strip():
            raise ValueError(f"the entry in line {line_of(item)} is not written after a hyphen")
        start = self._text.rfind("\n", 0, dash) + 1
        self._replace(start, self._next_line(self._end(item)), "")

    def _replace(self, start: int, end: int, new: str) -> None:
        self._changes.append(_Change(start, 2, end, new))

    def _insert(self, after: int, lines: Sequence[str], *, is_key: bool) -> None:
        place = self._next_line(after)
        self._changes.append(_Change(place, int(is_key), place, "".join(line + self._newline for line in lines)))

    def _next_line(self, place: int) -> int:
        end = self._text.find("\n", place)
        return len(self._text) if end < 0 else end + 1

    def _end(self, node: Node) -> int:
        """Return where the last value of a node ends: a node of several lines ends where the next one begins."""
        while (is_list(node) or is_mapping(node)) and not node.flow_style and node.value:
            last = node.value[-1]
            node = last[1] if is_mapping(node) else last
        start: int = node.start_mark.index
        return start + len(self._text[start : node.end_mark.index].rstrip())


def member(mapping: Node, key: str) -> Node:
    """Return the value of a key, None if there is none."""
    if mapping is None:
        return None
    return next((value for name, value in mapping.value if name.value == key), None)


def _refuse_flow(node: Node) -> None:
    if node.flow_style:
        raise ValueError(f"line {line_of(node)} is written in braces or brackets")
