"""YAML text as nodes with their places; the only module that needs a YAML library.

Nodes are read and never made into objects, so a tag such as ``!!python/object`` or Java's ``!!javax.script`` does
nothing. PyYAML knows the same YAML 1.1 as SnakeYAML, upstream's library, which is a translation of PyYAML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from gateway.errors import SettingsError
from gateway.spelling import nearest
from gateway.telemetry.logs import EventLog

log = EventLog("access")

MAX_FILE_BYTES: Final = 8 * 1024 * 1024
"""The size of a file of accounts."""
MAX_VALUES: Final = 1_000_000
"""The number of values in a file; a value that is repeated by ``*name`` counts each time."""
VALUE_CHARACTERS: Final = 64
"""The characters of a text that count as one more value."""
MAX_ADDRESSES: Final = 100_000
"""The number of addresses in all lists of a file; a list that is repeated by ``*name`` counts each time."""
MAX_KEY_CHARACTERS: Final = 100

Node: TypeAlias = Any
"""A node of PyYAML, which has no types."""

# libyaml reads 10,000 accounts in about a second; the loader in Python needs four times as long.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_DECIMAL_DIGITS: Final = frozenset("0123456789")


class AccountsFileError(SettingsError):
    """A file of accounts cannot be used.

    :param line: the line of the fault from 1, or 0 if the file as a whole is at fault.
    """

    def __init__(self, path: Path, line: int, reason: str) -> None:
        place = f"{path}, line {line}" if line else str(path)
        super().__init__(f"{place}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class Parsing:
    """Reads the nodes of one file; everything that is wrong is a ``AccountsFileError`` with the line."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self._values = 0
        self._addresses = 0
        if len(content) > MAX_FILE_BYTES:
            raise AccountsFileError(
                path, 0, f"larger than {MAX_FILE_BYTES} bytes; distribute the accounts over several files"
            )
        try:
            self.text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise AccountsFileError(path, line, "no UTF-8 text") from None
        self.root = self._composed()

    def broken(self, node: Node, reason: str) -> AccountsFileError:
        """Return the error about a node."""
        return AccountsFileError(self.path, line_of(node), reason)

    def members(self, node: Node, known: tuple[str, ...], what: str) -> Mapping[str, Node]:
        """Return the values of a mapping by key; a null is an empty mapping.

        A key that looks like a misspelt known key is refused; every other unknown key is reported and has no effect.
        """
        if is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self.broken(node, f"{what} must be written as keys with values, such as {known[0]}: ...")
        found: dict[str, Node] = {}
        for key, value in node.value:
            self._count(key)
            self._count(value, 0)
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if key.tag == f"{_TAG}merge":
                raise self.broken(key, "<< is not supported; write the keys out")
            if name in found:
                raise self.broken(key, f"{name} appears twice in {what}; keep one of the two")
            if name not in known:
                self._unknown(key, name[:MAX_KEY_CHARACTERS], known, what)
            found[name] = value
        return found

    def items(self, node: Node, what: str) -> Iterator[Node]:
        """Yield the values of a list; a null is an empty list."""
        if is_null(node):
            return
        if not isinstance(node, yaml.SequenceNode):
            raise self.broken(node, f"{what} must be a list: one line for each value, beginning with - and a space")
        for item in node.value:
            self._count(item)
            yield item

    def text_of(self, node: Node, what: str) -> str:
        """Return a value that is a text or a number; the number as it is written."""
        if is_null(node):
            return ""
        if not isinstance(node, yaml.ScalarNode):
            raise self.broken(node, f"{what} must be a single value")
        text: str = node.value
        if node.tag == f"{_TAG}str" or _is_plain_number(node):
            return text
        kind = node.tag.removeprefix(_TAG)
        raise self.broken(node, f"{what} is not a text for YAML but of kind {kind!r}: write it in quotes")

    def written(self, node: Node, what: str) -> str:
        """Return a value as it is written, also if YAML takes it for a number or a time: an address."""
        return node.value if isinstance(node, yaml.ScalarNode) else self.text_of(node, what)

    def count_addresses(self, node: Node, addresses: int) -> None:
        """Count the addresses that a pattern lists, before they are made.

        :raises AccountsFileError: they are too many for one file.
        """
        self._addresses += addresses
        if self._addresses > MAX_ADDRESSES:
            raise self.broken(
                node,
                f"more than {MAX_ADDRESSES} addresses in the lists of this file, counting repeated ones; write ranges "
                "such as 10.1.2.* or 10.1.3-5.*, or use several files",
            )

    def flag(self, node: Node, what: str) -> bool:
        """Return a value that is true or false; null is false."""
        if is_null(node):
            return False
        word = str(node.value).lower()
        words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        if not isinstance(node, yaml.ScalarNode) or word not in words:
            raise self.broken(node, f"{what} must be true or false")
        return words[word]

    def number(self, node: Node, what: str) -> int:
        """Return a whole number that is not negative and fits into 64 bits."""
        if not isinstance(node, yaml.ScalarNode) or not _is_plain_number(node) or len(node.value) > 18:
            raise self.broken(node, f"{what} must be a whole number")
        return int(node.value)

    def _composed(self) -> Node:
        try:
            return yaml.compose(self.text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark is not None else 0
            raise AccountsFileError(self.path, line, self._reason(error, line)) from None
        except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that may not be in a YAML text
            reason = getattr(error, "reason", None) or "unacceptable character"
            raise AccountsFileError(self.path, 0, f"no YAML text: {reason}") from None
        except RecursionError:
            raise AccountsFileError(self.path, 0, "no YAML text: nested too deeply") from None

    def _reason(self, error: yaml.MarkedYAMLError, line: int) -> str:
        said = f"no YAML text: {error.problem or error.context}"
        if error.context and "alias" in error.context:
            return f"{said}; a value that begins with a star is written in quotes, such as '*'"
        lines = self.text.splitlines()
        if 0 < line <= len(lines) and "\t" in lines[line - 1]:
            return f"{said}; indent with spaces: the line has a tab"
        return said

    def _unknown(self, key: Node, name: str, known: tuple[str, ...], what: str) -> None:
        meant = nearest(name, known) if name else None
        if meant is not None or not name:
            advice = f", or is {meant} meant?" if meant else ""
            raise self.broken(key, f"{name or 'a list'!r} is no key of {what}{advice}")
        log.warning("unknown key without effect", file=self.path, line=line_of(key), key=name)

    def _count(self, node: Node, values: int = 1) -> None:
        self._values += values
        if isinstance(node, yaml.ScalarNode):
            self._values += len(node.value) // VALUE_CHARACTERS
        if self._values > MAX_VALUES:
            raise self.broken(
                node, f"more than {MAX_VALUES} values, counting repeated ones; use several files, or fewer of *name"
            )


def line_of(node: Node) -> int:
    """Return the line of a node, from 1."""
    line: int = node.start_mark.line
    return line + 1


def is_null(node: Node) -> bool:
    """Return whether nothing is written where a node is, or null."""
    return node is None or (isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}null")


def is_list(node: Node) -> bool:
    """Return whether a node is a list."""
    return isinstance(node, yaml.SequenceNode)


def is_mapping(node: Node) -> bool:
    """Return whether a node has keys with values."""
    return isinstance(node, yaml.MappingNode)


def has_names(text: str) -> bool:
    """Return whether a YAML text, which has been read before, names values (``&name``) or repeats them (``*name``)."""
    return any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(text, Loader=_LOADER))


def _is_plain_number(node: Node) -> bool:
    """Return whether a value is a number that YAML and people read alike: digits without a 0 in front."""
    text = node.value
    return node.tag == f"{_TAG}int" and _DECIMAL_DIGITS.issuperset(text) and (text == "0" or not text.startswith("0"))
