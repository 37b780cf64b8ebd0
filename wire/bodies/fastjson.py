"""The JSON dialect of Java's fastjson: reads what fastjson reads, and writes what fastjson writes.

Reading tries strict JSON first (msgspec). The second attempt puts quotes around bare numbers that are keys, because
most Java programs deviate from JSON in nothing else. A tolerant reader takes the rest: bare keys (``{0:"a:1"}``),
objects as keys (``{{"brokerName":"b","queueId":0,"topic":"t"}:5}``), single quotes, comments and stray commas.
``{"$ref":"$.path"}``, by which fastjson repeats an object, is resolved after each of these readers. A reference by
which an object would contain itself is refused. Keys are always text: a bare 0 becomes "0", and an object becomes its
canonical JSON (``ObjectKey``), in which no key is again an object. Malformed UTF-8 and unpaired surrogates become
U+FFFD, as in Java.

Writing has two forms: strict JSON, and the Java form with bare integer keys and object keys, which is not JSON. Both
forms sort members by name, as fastjson sorts the members of a bean. The mapping to classes is in ``declare.py``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from itertools import repeat
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeAlias

import msgspec

from wire.errors import BodyError, LocalError

Readable: TypeAlias = bytes | bytearray | memoryview

MAX_DEPTH = 64
"""The deepest nesting of objects and arrays; bodies of the protocol need 8."""
MAX_JSON_BYTES = 16_777_216
"""The most bytes of a text; a frame has no room for more. Files of the store may be larger and have their own limit."""
MAX_CONTAINERS = 262_144
"""The most objects and arrays of a text; brackets within strings are counted too.

Each takes a microsecond to make and a hundred bytes of memory. A table of 100,000 topics has 200,000. Files are read at
the start of a server and have their own limit.
"""
MAX_LENIENT_BYTES = 262_144
"""The most bytes of a text that is not strict JSON, even with quotes around numbers that are keys.

Such a text is read in Python, and nothing else happens meanwhile. Clients and brokers send a server no larger ones.
Answers of a server, and files, have their own limit.
"""
MAX_LENIENT_VALUES = 32_768
"""The most values and comments of such a text: 50 ms of reading. A queue and its offset are five values of 60 bytes."""
MAX_REFERRING_BYTES = 4_194_304
"""The most bytes of a text with references: 20,000 topics, each with a reference to the same map of attributes."""
MAX_REFERENCED_CHARS = 65_536
"""The most characters by which copies of the referenced objects would be longer than the references of a text.

Without this limit a body of 60 KB could stand for millions of values, and converting all of them takes a second in
which nothing else happens. The limit allows a thousand subscriptions that a heartbeat repeats, and takes about ten
milliseconds. An object that is no longer than its reference counts nothing, because brokers with fastjson 1 refer to
one empty map of attributes for each topic.
"""
MAX_NUMBER_CHARS = 64
MEMBERS_PER_PIECE = 256
"""The most members of an object whose texts exist at the same time: the text of a large table is joined in pieces.

Twenty thousand small texts at once would leave the memory of small objects in pieces, and Python keeps these pieces.
"""

_CONTAINERS = (dict, list)
_decode_strict = msgspec.json.Decoder().decode


class ObjectKey(str):
    """A map key that is a JSON object in Java's form; the text is the object with sorted members."""

    __slots__ = ()


class PreparedText(str):
    """A value that is JSON text already; ``prepared_text`` made the text for its place."""

    __slots__ = ()


def parse_json(
    raw: Readable | str,
    *,
    max_bytes: int = MAX_JSON_BYTES,
    max_containers: int = MAX_CONTAINERS,
    max_lenient_bytes: int = MAX_LENIENT_BYTES,
    max_lenient_values: int = MAX_LENIENT_VALUES,
    max_referenced_chars: int = MAX_REFERENCED_CHARS,
) -> Any:
    """Read a JSON text in fastjson's dialect.

    :param max_bytes: the most bytes of the text.
    :param max_containers: the most objects and arrays in the text.
    :param max_lenient_bytes: the most bytes of a text that is not strict JSON, even with quotes around numbers that are
        keys.
    :param max_lenient_values: the most values in such a text.
    :param max_referenced_chars: the most characters by which the text would grow if each ``$ref`` were a copy of its
        object: thirty objects that name each other twice in turn would grow to a thousand million.
    :returns: dict (text keys), list, str, int, float, bool or None. With ``$ref`` two places may share one object.
    :raises BodyError: the text is unreadable, deeper than ``MAX_DEPTH`` or over a limit, or a ``$ref`` leads nowhere or
        to an object around the reference.
    """
    if isinstance(raw, memoryview):
        raw = raw.tobytes()
    elif isinstance(raw, str):
        raw = str(raw)  # the strict reader takes no subclass, and a key is one
    _check_size(raw, max_bytes, "JSON text")
    containers = _containers(raw)
    if containers > max_containers:
        raise BodyError(f"JSON text has {containers} objects and arrays, the limit is {max_containers}")
    try:
        value = _decode_strict(raw)
    except _NOT_STRICT:
        text = raw if isinstance(raw, str) else str(raw, "utf-8", "replace")
        value = _read_dialect(text, max_lenient_bytes, max_lenient_values)
        has_references = '"$ref"' in text or "'$ref'" in text
    else:
        has_references = '"$ref"' in raw if isinstance(raw, str) else b'"$ref"' in raw
    if containers > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise _too_deep()
    if has_references:
        _check_size(raw, max(max_lenient_bytes, MAX_REFERRING_BYTES), "JSON text with references")
        value = _Resolution(value, max_referenced_chars).resolve()
    return value


_NOT_STRICT = (msgspec.DecodeError, UnicodeError, RecursionError)


def _read_dialect(text: str, max_bytes: int, max_values: int) -> Any:
    """Read a text that is not strict JSON."""
    quoted = _with_quoted_numbers(text)
    try:
        if quoted is not None:
            return _decode_strict(quoted)
    except _NOT_STRICT:
        pass
    _check_size(text, max_bytes, "text that is no strict JSON")
    return _Reader(text, max_values).read()


def _with_quoted_numbers(text: str) -> str | None:
    """Return the text with quotes around bare numbers that are keys; None if the text needs the tolerant reader.

    Strings stay unchanged. Every step is one call for the whole text, so that megabytes take milliseconds.
    """
    if any(mark in text for mark in (_QUOTE, _BACKSLASH, _QUOTED_QUOTE)):
        return None
    plain = text.replace("\\\\", _BACKSLASH).replace('\\"', _QUOTED_QUOTE) if "\\" in text else text
    parts = plain.split('"')
    outside, count = _NUMBER_KEY.subn(rf"\1{_QUOTE}\2{_QUOTE}:", '"'.join(parts[::2]), MAX_QUOTED_KEYS)
    if count == MAX_QUOTED_KEYS:
        return None
    parts[::2] = outside.split('"')
    quoted = '"'.join(parts).replace(_QUOTE, '"')
    return quoted.replace(_QUOTED_QUOTE, '\\"').replace(_BACKSLASH, "\\\\")


def _check_size(raw: bytes | bytearray | str, limit: int, kind: str) -> None:
    if len(raw) > limit:
        raise BodyError(f"{kind} of {len(raw)} bytes is over the limit of {limit}")


def _containers(raw: bytes | bytearray | str) -> int:
    """Return the largest number of objects and arrays that a text can have."""
    return raw.count("{") + raw.count("[") if isinstance(raw, str) else raw.count(b"{") + raw.count(b"[")


def is_deeper(value: Any, depth: int) -> bool:
    """Return whether a value nests objects and arrays more than ``depth`` levels below itself."""
    level = [value]
    for _ in range(depth + 1):
        children: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                children += [child for child in node.values() if isinstance(child, _CONTAINERS)]
            elif isinstance(node, list):
                children += [child for child in node if isinstance(child, _CONTAINERS)]
        if not children:
            return False
        level = children
    return True


def _too_deep() -> BodyError:
    return BodyError(f"JSON text is nested deeper than {MAX_DEPTH}")


_SPACE = re.compile(r"[\s\ufeff,]*+")  # arbitrary commas are allowed
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|\'([^\'\\]*+(?:\\.[^\'\\]*+)*+)\'', re.DOTALL)
# Possessive: a peer may send a million digits and a letter, and no digit is ever looked at a second time.
_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?(?=[\s,:}\]/LSBFD]|$)")
_NUMBER_KEY = re.compile(r"([{,])(-?[0-9]{1,20}):")
_ITEM = re.compile(r'[\s\ufeff,]*+(?:"([^"\\]*+)"|(-?[0-9]{1,18}+)(?=[\s,\]]))')
_MEMBER = re.compile(
    r'[\s\ufeff,]*+(?:"([^"\\]*+)"|([^\s:,{}\[\]"\'/]++))[\s\ufeff,]*+:'
    r'[\s\ufeff,]*+(?:"([^"\\]*+)"|(-?[0-9]{1,18}+)(?=[\s,}]))'
)
_WORD = re.compile(r"[A-Za-z]+")
_BARE_KEY = re.compile(r"[^\s:,{}\[\]\"'/]++")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "F": "\f"}
_QUOTE, _BACKSLASH, _QUOTED_QUOTE = "\x01", "\x02", "\x03"  # no JSON text has these characters
MAX_QUOTED_KEYS = 262_144
"""The most bare numbers that get quotes; each takes a microsecond."""
_WORDS = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}


class _Reader:
    """The tolerant reader: recursive and bounded by ``MAX_DEPTH``; plain strings and numbers are read in one go.

    :param limit: the most values and comments to read.
    """

    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        self._limit = limit
        self._count = 0
        self._at = 0
        self._within_key = False

    def read(self) -> Any:
        self._skip()
        value = self._value(0)
        self._skip()
        if self._at != len(self._text):
            raise self._error("the end of the text")
        return value

    def _error(self, expected: str) -> BodyError:
        found = self._text[self._at : self._at + 16]
        return BodyError(f"JSON text at character {self._at}: expected {expected}, found {found!r}")

    def _skip(self) -> str:
        """Skip white space, commas and comments; return the character after them, "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None, "the pattern matches nothing at all, too"
            self._at = match.end()
            character = self._text[self._at : self._at + 1]
            if character != "/" or not self._skip_comment():
                return character

    def _skip_comment(self) -> bool:
        """Skip a comment; return False if no comment starts here, or if the comment does not end."""
        is_line = self._text.startswith("//", self._at)
        if not is_line and not self._text.startswith("/*", self._at):
            return False
        end = self._text.find("\n" if is_line else "*/", self._at + 2)
        if end < 0 and not is_line:
            return False
        self._at = len(self._text) if end < 0 else end + (1 if is_line else 2)
        self._counted()
        return True

    def _counted(self) -> None:
        self._count += 1
        if self._count > self._limit:
            raise BodyError(f"text that is no strict JSON has more than {self._limit} values and comments, the limit")

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _too_deep()
        character = self._text[self._at : self._at + 1]
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        if character in ('"', "'"):
            return self._string()
        if character.isalpha():
            return self._word()
        return self._number()

    def _object(self, depth: int) -> dict[str, Any]:
        self._at += 1
        members: dict[str, Any] = {}
        while True:
            self._counted()
            if (member := _MEMBER.match(self._text, self._at)) is not None:
                self._at = member.end()
                name, bare, content, digits = member.groups()
                members[bare if name is None else name] = int(digits) if content is None else content
                continue
            if (character := self._skip()) == "}":
                break
            key = self._key(character, depth)
            if self._skip() != ":":
                raise self._error("':'")
            self._at += 1
            self._skip()
            members[key] = self._value(depth + 1)
        self._at += 1
        return members

    def _key(self, character: str, depth: int) -> str:
        if character in ('"', "'"):
            return self._string()
        if character == "{":
            return self._object_key(depth)
        match = _BARE_KEY.match(self._text, self._at)
        if match is None:
            raise self._error("a member name")
        self._at = match.end()
        return match.group()

    def _object_key(self, depth: int) -> ObjectKey:
        if self._within_key:  # each would double the backslashes of the one inside it
            raise self._error("a member name that is no object, within one that is")
        self._within_key = True
        key = object_key(self._value(depth + 1))
        self._within_key = False
        return key

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        while True:
            self._counted()
            if (item := _ITEM.match(self._text, self._at)) is not None:
                self._at = item.end()
                content, digits = item.groups()
                items.append(int(digits) if content is None else content)
            elif self._skip() == "]":
                break
            else:
                items.append(self._value(depth + 1))
        self._at += 1
        return items

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._error("a closed string")
        self._at = match.end()
        content = match.group(1) if match.group(1) is not None else match.group(2)
        return _unescape(content) if "\\" in content else content

    def _word(self) -> bool | None:
        match = _WORD.match(self._text, self._at)
        if match is None or match.group() not in _WORDS:
            raise self._error("a value")
        self._at = match.end()
        return _WORDS[match.group()]

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._at)
        if match is None or match.end() - match.start() > MAX_NUMBER_CHARS:
            raise self._error("a value")
        self._at = match.end()
        if self._text[self._at : self._at + 1] in ("L", "S", "B", "F", "D"):  # Java's number suffixes
            self._at += 1
        digits = match.group()
        return float(digits) if any(character in digits for character in ".eE") else int(digits)


def _unescape(content: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2)
        if code is not None:
            return chr(int(code, 16))
        character = match.group(3)
        return _ESCAPED.get(character, character)

    text = _ESCAPE.sub(replacement, content)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_PATH_STEP = re.compile(r"\.((?:\\.|[^.\[\\]++)+)|\[([0-9]+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]", re.DOTALL)


_LENGTH_AROUND_PATH = len('{"$ref":""}')


class _Reference(NamedTuple):
    """A ``$ref`` and its place: ``container[place]``, with ``depth`` objects and arrays around the reference."""

    container: Any
    place: Any
    path: str
    depth: int


class _Resolution:
    """A replacement of every ``{"$ref":…}`` in a document by the object that the reference names.

    ``@`` is the object or array that holds the reference, ``..`` the next one around it, and ``$`` the whole document.
    Any other reference is a path from ``$``; a backslash escapes special characters of names (fastjson
    ``SerialContext``). Paths are paths of the text: no path leads through another reference.
    """

    def __init__(self, root: Any, limit: int) -> None:
        self._root = root
        self._limit = limit
        self._excess = 0
        self._measured: dict[int, tuple[int, int]] = {}

    def resolve(self) -> Any:
        if not isinstance(self._root, dict | list):
            return self._root
        if _reference(self._root) is not None:
            raise BodyError("the document is nothing but a $ref")
        references = self._references()
        targets = [self._target(reference.path) for reference in references]
        for reference, target in zip(references, targets, strict=True):
            reference.container[reference.place] = target
        for reference, target in zip(references, targets, strict=True):
            length, _ = self._measure(target, reference.depth)
            self._add(length - _LENGTH_AROUND_PATH - len(reference.path), reference.path)
        return self._root

    def _references(self) -> list[_Reference]:
        """Return the references of the document, the outer ones first."""
        references: list[_Reference] = []
        level: list[Any] = [self._root]
        depth = 0
        while level:
            depth += 1
            children: list[Any] = []
            for container in level:
                for place, child in container.items() if isinstance(container, dict) else enumerate(container):
                    if not isinstance(child, _CONTAINERS):
                        continue
                    path = _reference(child)
                    if path is not None:
                        references.append(_Reference(container, place, path, depth))
                    elif child:
                        children.append(child)
            level = children
        return references

    def _add(self, excess: int, path: str) -> None:
        """Count by how many characters a copy is longer than its reference.

        :raises BodyError: the copies are over the limit now.
        """
        self._excess += max(excess, 0)
        if self._excess > self._limit:
            raise BodyError(
                f"$ref {path[:64]!r}: with it the references of a JSON text stand for at least {self._excess} "
                f"characters more than they have themselves, the limit is {self._limit}"
            )

    def _measure(self, node: Any, around: int) -> tuple[int, int]:
        """Return the least number of characters of a value, and its depth, with a copy in place of each reference.

        Nothing beyond the limit is measured.
        """
        if not isinstance(node, dict | list):
            return _scalar_length(node), 0
        measured = self._measured.get(id(node)) if node else (2, 0)
        if measured is None and around <= MAX_DEPTH:
            self._measured[id(node)] = 0, MAX_DEPTH + 1  # for as long as it could be found within itself
            length, depth = 2 + len(node), 0
            for name, child in node.items() if isinstance(node, dict) else zip(repeat(""), node, strict=False):
                length += len(name)
                if length > self._limit:
                    break
                if isinstance(child, dict | list):
                    more, below = self._measure(child, around + 1)
                    length, depth = length + more, max(depth, below + 1)
                else:
                    length += _scalar_length(child)
            measured = self._measured[id(node)] = length, depth
        if measured is None or around + measured[1] > MAX_DEPTH:
            raise BodyError(f"JSON text is by its references nested deeper than {MAX_DEPTH}, or contains itself")
        return measured

    def _target(self, path: str) -> Any:
        if path in ("@", ".."):
            raise BodyError(f"$ref {path!r} leads to what it lies in")
        if not path.startswith("$"):
            raise BodyError(f"$ref {path[:64]!r} is not a path")
        node = self._root
        at = 1
        while at < len(path):
            step = _PATH_STEP.match(path, at)
            if step is None:
                raise BodyError(f"$ref {path[:64]!r} is not a path")
            at = step.end()
            node = _step(node, step, path)
        if _reference(node) is not None:
            raise BodyError(f"$ref {path[:64]!r} leads to another $ref")
        return node


def _scalar_length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 1


def _reference(node: Any) -> str | None:
    if isinstance(node, dict) and len(node) == 1:
        path = node.get("$ref")
        if isinstance(path, str):
            return path
    return None


def _step(node: Any, step: re.Match[str], path: str) -> Any:
    name, index, single, double = step.groups()
    try:
        if isinstance(node, list):
            return node[int(index)] if index is not None and len(index) < 10 else node[len(node)]
        if isinstance(node, dict):
            if name is not None:
                return node[re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL) if "\\" in name else name]
            return node[next(part for part in (index, single, double) if part is not None)]
    except LookupError as error:
        raise BodyError(f"$ref {path[:64]!r} leads nowhere") from error
    raise BodyError(f"$ref {path[:64]!r} leads nowhere")


def object_key(members: Mapping[str, Any]) -> ObjectKey:
    """Return the key text of an object: JSON with sorted members and no white space."""
    return ObjectKey(str(build_json(members, java_form=False), "utf-8"))


def build_json(value: Any, *, java_form: bool, ascii_only: bool = False) -> bytes:
    """Return a value as UTF-8 text on one line, with members sorted by name.

    What has a method ``to_json`` is written as the method's result.

    :param java_form: True leaves integer keys bare and writes ``ObjectKey`` keys as objects; False writes strict JSON
        with text keys.
    :param ascii_only: escape all characters beyond ASCII (fastjson ``BrowserCompatible``).
    :raises LocalError: JSON does not have the type, a map has keys of several types, or the value is deeper than
        ``MAX_DEPTH``.
    """
    text = _text(value, java_form, None, 0)
    if ascii_only and not text.isascii():
        # Outside of strings everything is ASCII, so whatever is not may be escaped wherever it stands.
        return re.sub("[^\x00-\x7f]", _escape, text).encode("ascii")
    return text.encode("utf-8", "replace")


def build_pretty_json(value: Any) -> bytes:
    """Return a value in Java's form on many lines, indented by tabs, as Apache writes its configuration files."""
    return _text(value, True, "\n", 0).encode("utf-8", "replace")


def prepared_text(value: Any, *, depth: int | None) -> PreparedText:
    """Return the text of a part of a larger value, in Java's form, so that the text can stand for the part many times.

    :param depth: how many objects are around the part within a pretty text; None for a text on one line.
    :raises LocalError: as ``build_json``.
    """
    return PreparedText(_text(value, True, None if depth is None else "\n" + "\t" * depth, depth or 0))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]


def _text(value: Any, java_form: bool, newline: str | None, depth: int) -> str:
    if isinstance(value, str):
        return value if type(value) is PreparedText else encode_basestring(value)
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if depth > MAX_DEPTH:
        raise LocalError(f"value is nested deeper than {MAX_DEPTH}")
    if type(value) is dict or isinstance(value, Mapping):
        return _object_text(value, java_form, newline, depth)
    if isinstance(value, Set):
        value = sorted(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        inner = None if newline is None else newline + "\t"
        items = [_text(item, java_form, inner, depth + 1) for item in value]
        return _joined("[", items, "]", newline)
    if hasattr(value, "to_json"):
        return _text(value.to_json(), java_form, newline, depth)
    raise LocalError(f"JSON has no {type(value).__name__}")


def _object_text(value: Mapping[Any, Any], java_form: bool, newline: str | None, depth: int) -> str:
    inner = None if newline is None else newline + "\t"
    try:
        keys = sorted(value)
    except TypeError as error:
        raise LocalError("a map's keys are of several types") from error
    if java_form and keys and type(keys[0]) is int:
        # fastjson's pretty form keeps the members of such a map on one line: {0:5,1:7⏎}
        return "{" + _numbered_text(value, keys, inner, depth) + (newline or "") + "}"
    pieces = [
        _separator(newline).join(
            [
                f"{_key_text(key, java_form)}:{_text(value[key], java_form, inner, depth + 1)}"
                for key in keys[begin : begin + MEMBERS_PER_PIECE]
            ]
        )
        for begin in range(0, len(keys), MEMBERS_PER_PIECE)
    ]
    return _joined("{", pieces, "}", newline)


def _numbered_text(value: Mapping[int, Any], keys: list[int], newline: str | None, depth: int) -> str:
    if {*map(type, value.values())} == {int}:  # offsets by queue: a broker has many of them
        return repr({key: value[key] for key in keys})[1:-1].replace(" ", "")
    return ",".join([f"{key}:{_text(value[key], True, newline, depth + 1)}" for key in keys])


def _key_text(key: Any, java_form: bool) -> str:
    if isinstance(key, ObjectKey) and java_form:
        return str(key)
    if isinstance(key, str):
        return encode_basestring(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return int.__repr__(key) if java_form else f'"{int.__repr__(key)}"'
    raise LocalError(f"a map's key is text, an integer or an object, not {type(key).__name__}")


def _joined(opening: str, parts: list[str], closing: str, newline: str | None) -> str:
    text = _separator(newline).join(parts)
    if newline is None or not parts:
        return opening + text + closing
    return opening + newline + "\t" + text + newline + closing


def _separator(newline: str | None) -> str:
    return "," if newline is None else f",{newline}\t"
