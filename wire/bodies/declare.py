"""Declarations of JSON bodies: a body is a frozen struct whose fields are its members.

Reading and writing are derived from the fields:

    class SubscriptionGroupList(Body):
        configs: Sequence[SubscriptionGroupConfig] = field(name="groupConfigList")

The member of a field has the field's name in camel case (``read_queue_nums`` → ``readQueueNums``), or the name in
``field(name=...)``. The field's type decides how a value is read:

    str, int, float, bool, X | None, Sequence[X], frozenset[X], Mapping[K, X] with K = str, int or
    MessageQueue, another class of this kind, Any

``Annotated`` types say more: ``Members``, ``Ordinals``, ``Undeclared``.

Reading is as lenient as fastjson. Names match without regard to case, ``_`` and a leading ``is``. Numbers and truth
values may be text. A null member counts as left out. Writing leaves out None and sorts the members. A field without a
default is required.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar, dataclass_transform

import msgspec
from msgspec import field as field

from wire.bodies.fastjson import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_JSON_BYTES,
    MAX_LENIENT_BYTES,
    build_json,
    is_deeper,
    object_key,
    parse_json,
)
from wire.bodies.fastjson import (
    Readable as Readable,
)
from wire.errors import BodyError

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Long work: the generator yields between two steps and returns the result. ``finish`` takes all steps at once."""

ENTRIES_PER_STEP = 500
"""The number of table or list entries that one step reads: a few milliseconds of work."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


_Read: TypeAlias = Callable[[Any], Any]

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1

SMALL_BODY_BYTES = 262_144
"""The most bytes of a request about one thing: a topic, a group, a version or a subscription."""
REQUEST_BODY_BYTES = 2_097_152
"""The most bytes of a client's request: a heartbeat with 1,000 groups of five topics has half of them."""
LIST_BODY_BYTES = 4_194_304
"""The most bytes of a request with a list of topics or groups, and of a client's answer."""
LENIENT_BYTES_PER_VALUE = 8
"""The least bytes of a value, on average, in a body that is not strict JSON.

Real bodies need more: a queue and its offsets, as tools get them, are ten values of 170 bytes in all.
"""
ANSWER_LENIENT_BYTES = 2_097_152
"""The most bytes of a server's answer that is not strict JSON: the offsets of 10,000 queues, whose keys are objects."""
REQUEST_CONTAINERS = 32_768
"""The most objects and arrays of a request: 10,000 subscriptions or topics.

Reading each takes five to ten microseconds.
"""

MAX_KEPT_DEPTH = MAX_DEPTH - 8
"""The deepest nesting of objects and arrays within a member that is kept unchanged.

Such a member is written again within a file or a table, which nest deeper. A member with the full depth of a text could
be read but never written, and the rest of its file could not be written either.
"""


class Members(NamedTuple):
    """A mark for texts that are a list of objects: the name of the one member of each object."""

    name: str


class Ordinals(NamedTuple):
    """A mark for a text: the names that may also be given by their numbers."""

    names: Iterable[str]


class Undeclared(NamedTuple):
    """A mark for a dict that keeps undeclared members through a rewrite, except the members in ``drop``."""

    drop: tuple[str, ...] = ()


_NOTHING: Mapping[Any, Any] = {}


def nothing() -> Mapping[Any, Any]:
    """Return the one empty table of all bodies, which nobody changes: a broker keeps several for each topic."""
    return _NOTHING


Rest: TypeAlias = Annotated[Mapping[str, Any], Undeclared()]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class JsonObject(msgspec.Struct, frozen=True, rename="camel"):
    """The base of all bodies and of their parts; members have names in camel case.

    Objects are frozen and slotted, and compare by value; ``msgspec.structs.replace`` makes changed copies. A body that
    a server reads in one go is a ``RequestBody`` and has a limit of its size. Reading the largest such body takes a
    quarter of a second at most.
    """

    MAX_BYTES: ClassVar[int] = MAX_JSON_BYTES  # of what comes from a server, as is the next one
    MAX_LENIENT_BYTES: ClassVar[int] = ANSWER_LENIENT_BYTES
    MAX_CONTAINERS: ClassVar[int] = MAX_CONTAINERS

    @classmethod
    def parse(cls, raw: Readable | str) -> Self:
        """Read the body of a command.

        :raises BodyError: the JSON is unreadable, larger than ``MAX_BYTES`` or has more than ``MAX_CONTAINERS`` objects
            and arrays, a required member is missing, or a member has the wrong type.
        """
        return cls.from_json(cls.read_json(raw))

    @classmethod
    def read_json(cls, raw: Readable | str) -> Any:
        """Read the JSON value of a body within the limits of this class; raises as ``parse`` does."""
        if len(raw) > cls.MAX_BYTES:
            raise BodyError(f"{cls.__name__} of {len(raw)} bytes is over the limit of {cls.MAX_BYTES}")
        return parse_json(
            raw,
            max_containers=cls.MAX_CONTAINERS,
            max_lenient_bytes=cls.MAX_LENIENT_BYTES,
            max_lenient_values=cls.MAX_LENIENT_BYTES // LENIENT_BYTES_PER_VALUE,
        )

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the body for a JSON value that was read already; raises as ``parse`` does."""
        plan = _plan(cls)
        fields: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, item in _members(cls, value):
            known = plan.by_name.get(name) or plan.by_smart_name.get(_smart(name))
            if known is None:
                if plan.rest is not None and name not in plan.dropped:
                    rest[name] = _convert(_read_kept, cls.__name__, name, item)
            elif item is not None:
                fields[known.attribute] = _convert(known.read, cls.__name__, known.member, item)
        if plan.rest is not None and rest:
            fields[plan.rest] = rest
        return cls._complete(fields)

    @classmethod
    def from_json_in_steps(cls, value: Any) -> Steps[Self]:
        """Do ``from_json`` in steps, for a class without ``Undeclared``.

        Large tables and lists are read piece by piece.
        """
        plan = _plan(cls)
        fields: dict[str, Any] = {}
        for at, (name, item) in enumerate(_members(cls, value), start=1):
            known = plan.by_name.get(name) or plan.by_smart_name.get(_smart(name))
            if known is not None and item is not None:
                fields[known.attribute] = yield from _convert_in_steps(known, cls.__name__, item)
            if at % ENTRIES_PER_STEP == 0:
                yield
        return cls._complete(fields)

    @classmethod
    def _complete(cls, fields: dict[str, Any]) -> Self:
        plan = _plan(cls)
        for attribute in plan.required:
            if attribute not in fields:
                raise BodyError(f"{cls.__name__}: {plan.member_of[attribute]} is missing")
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """Return the members that are not None, ready for ``build_json``.

        Objects in tables stay as they are: ``build_json`` takes the members of one at a time.
        """
        plan = _plan(type(self))
        members: dict[str, Any] = {}
        if plan.rest is not None:
            members.update(getattr(self, plan.rest))
        for known in plan.fields:
            value = getattr(self, known.attribute)
            if value is not None:
                members[known.member] = value if type(value) in _AS_THEY_ARE else known.write(value)
        return members


class Body(JsonObject):
    """A whole body, written in Java's form unless the caller asks for strict JSON."""

    def build(self, *, java_form: bool = True) -> bytes:
        """Return the JSON text; ``build_json`` describes the two forms."""
        return build_json(self.to_json(), java_form=java_form)


class RequestBody(Body):
    """A body that a server reads in one go, in the middle of its other work."""

    MAX_BYTES: ClassVar[int] = REQUEST_BODY_BYTES
    MAX_LENIENT_BYTES: ClassVar[int] = MAX_LENIENT_BYTES
    MAX_CONTAINERS: ClassVar[int] = REQUEST_CONTAINERS


class SmallRequestBody(RequestBody):
    """A body about one thing."""

    MAX_BYTES: ClassVar[int] = SMALL_BODY_BYTES


class ListRequestBody(RequestBody):
    """A body that may be a long list."""

    MAX_BYTES: ClassVar[int] = LIST_BODY_BYTES


class _MismatchError(Exception):
    """A value of the wrong kind; the caller adds the field's name.

    ``keys`` is the way through tables to ``item``, the wrong value; empty if the field's own value is wrong.
    """

    keys: tuple[Any, ...] = ()
    item: Any = None


class _Field(NamedTuple):
    """A field, and how its value is read in steps: as another class, or in pieces that are joined."""

    attribute: str
    member: str
    read: _Read
    write: Callable[[Any], Any]
    part: type[JsonObject] | None = None
    join: Callable[[list[Any]], Any] | None = None


class _Plan(NamedTuple):
    fields: tuple[_Field, ...]
    by_name: dict[str, _Field]
    by_smart_name: dict[str, _Field]
    member_of: dict[str, str]
    required: tuple[str, ...]
    rest: str | None
    dropped: frozenset[str]


def _convert(read: _Read, body: str, member: str, item: Any) -> Any:
    """Read a member.

    :raises BodyError: the member, named with its place, has the wrong type.
    """
    try:
        return read(item)
    except _MismatchError as mismatch:
        where = "".join(f"[{_shown(key)}]" for key in mismatch.keys)
        culprit = mismatch.item if mismatch.keys else item
        raise BodyError(f"{body}.{member}{where}: {_shown(culprit)} is not {mismatch}") from mismatch


def _convert_in_steps(known: _Field, body: str, item: Any) -> Steps[Any]:
    if known.part is not None:
        return (yield from known.part.from_json_in_steps(item))
    if known.join is None or not isinstance(item, dict | list):
        return _convert(known.read, body, known.member, item)
    parts: list[Any] = []
    for piece in _pieces(item):
        if parts:
            yield
        parts.append(_convert(known.read, body, known.member, piece))
    return known.join(parts)


def _pieces(item: dict[str, Any] | list[Any]) -> Iterator[Any]:
    """Split a table or list into several small ones."""
    entries = iter(item.items() if isinstance(item, dict) else item)
    while piece := list(islice(entries, ENTRIES_PER_STEP)):
        yield type(item)(piece)


def _members(cls: type[JsonObject], value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise BodyError(f"{cls.__name__} is a JSON object, not {_shown(value)}")
    return value.items()


def _shown(value: Any) -> str:
    return repr(value)[:64]


def _smart(name: str) -> str:
    plain = name.replace("_", "").lower()
    return plain[2:] if plain.startswith("is") else plain


_M = TypeVar("_M", Members, Ordinals, Undeclared)
_AS_THEY_ARE = frozenset({str, int, bool, float, type(None)})
_plans: dict[type[JsonObject], _Plan] = {}


def _plan(cls: type[JsonObject]) -> _Plan:
    """Return the plan of a class; the plan is made at the first use."""
    plan = _plans.get(cls)
    if plan is None:
        plan = _plans[cls] = _make_plan(cls)
    return plan


def _make_plan(cls: type[Any]) -> _Plan:
    fields: list[_Field] = []
    required: list[str] = []
    rest: str | None = None
    dropped: frozenset[str] = frozenset()
    for declared in msgspec.structs.fields(cls):
        undeclared = _mark(declared.type, Undeclared)
        if undeclared is not None:
            rest = declared.name
            dropped = frozenset(undeclared.drop)
            continue
        fields.append(_field(declared))
        if declared.required:
            required.append(declared.name)
    return _Plan(
        fields=tuple(fields),
        by_name={known.member: known for known in fields},
        by_smart_name={_smart(known.member): known for known in fields},
        member_of={known.attribute: known.member for known in fields},
        required=tuple(required),
        rest=rest,
        dropped=dropped,
    )


def _field(declared: msgspec.structs.FieldInfo) -> _Field:
    name, member, hint = declared.name, declared.encode_name, declared.type
    members = _mark(hint, Members)
    if members is not None:
        inner = members.name
        return _Field(name, member, _members_reader(inner), lambda texts: [{inner: text} for text in texts])
    ordinals = _mark(hint, Ordinals)
    if ordinals is not None:
        read = _name_reader(tuple(ordinals.names))
        return _Field(name, member, _sharing_reader(read, declared.default), str)
    part = hint if isinstance(hint, type) and issubclass(hint, JsonObject) else None
    read = _sharing_reader(_reader(hint), declared.default)
    return _Field(name, member, read, _plain, part, _JOINS.get(typing.get_origin(hint)))


def _mark(hint: Any, kind: type[_M]) -> _M | None:
    """Return the mark of this kind in an ``Annotated`` type, or None."""
    marks = getattr(hint, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, kind)), None)


def _plain(value: Any) -> Any:
    """Return a field's value in the form that ``build_json`` takes."""
    kind = type(value)
    if kind in _AS_THEY_ARE or (kind is dict and {*map(type, value), *map(type, value.values())} == {int}):
        return value  # looked at first: a broker writes the offsets of ten thousand topics every few seconds
    if isinstance(value, JsonObject):
        return value.to_json()
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, Mapping):
        return {_plain_key(key): item if isinstance(item, JsonObject) else _plain(item) for key, item in value.items()}
    return value


def _plain_key(key: Any) -> Any:
    return object_key(key.to_json()) if isinstance(key, JsonObject) else key


def _reader(hint: Any) -> _Read:
    """Return the function that reads a value of this type."""
    simple = _SIMPLE.get(hint)
    if simple is not None:
        return simple
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not types.NoneType)
        return _reader(inner)
    if origin in (tuple, Sequence):
        return _list_reader(arguments[0], tuple)
    if origin is frozenset:
        return _list_reader(arguments[0], frozenset)
    if origin in (dict, Mapping):
        return _map_reader(_key_reader(arguments[0]), _reader(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, JsonObject):
        return hint.from_json
    raise TypeError(f"a body cannot hold {hint}")


def _list_reader(hint: Any, collection: Callable[[list[Any]], Any]) -> _Read:
    read = _reader(hint)

    def read_list(value: Any) -> Any:
        if not isinstance(value, list):
            raise _MismatchError("an array")
        if _are_all(hint, value):
            return collection(value)
        return collection([read(item) for item in value if item is not None])

    return read_list


def _are_all(kind: Any, items: list[Any]) -> bool:
    """Return whether items are texts or 64-bit integers, as they should be: a heartbeat may list a million of them."""
    if kind not in (str, int) or {*map(type, items)} != {kind}:
        return False
    return kind is str or (min(items) >= MIN_LONG and max(items) <= MAX_LONG)


def _sharing_reader(read: _Read, default: Any) -> _Read:
    """Return a reader whose value is the default itself if it equals the default: an empty set takes 216 bytes."""

    def read_sharing(value: Any) -> Any:
        found = read(value)
        return default if found == default else found

    return read_sharing if isinstance(default, str | frozenset) else read


def _map_reader(read_key: _Read, read_value: _Read) -> _Read:
    def read_map(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _MismatchError("an object")
        if not value:
            return _NOTHING
        try:
            return {read_key(key): read_value(item) for key, item in value.items() if item is not None}
        except _MismatchError as mismatch:
            raise _entry_mismatch(value, read_key, read_value) or mismatch from None

    return read_map


def _entry_mismatch(value: dict[Any, Any], read_key: _Read, read_value: _Read) -> _MismatchError | None:
    """Return the first mismatch of a table, with its place, because a table may have a million entries."""
    for key, item in value.items():
        culprit = key
        try:
            read_key(key)
            culprit = item
            if item is not None:
                read_value(item)
        except _MismatchError as mismatch:
            if not mismatch.keys:
                mismatch.item = culprit
            mismatch.keys = (key, *mismatch.keys)
            return mismatch
    return None


def _key_reader(hint: Any) -> _Read:
    if isinstance(hint, type) and issubclass(hint, JsonObject):
        return hint.parse  # the key is the object's JSON text, written as an object or as text
    return _reader(hint)


def _members_reader(member: str) -> _Read:
    def read_members(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise _MismatchError("an array of objects")
        return tuple(_read_str(item[member]) for item in value if item.get(member) is not None)

    return read_members


def _name_reader(names: tuple[str, ...]) -> _Read:
    def read_name(value: Any) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value < len(names):
                raise _MismatchError(f"one of {', '.join(names)}")
            return str(names[value])
        return _read_str(value)

    return read_name


def _read_str(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _MismatchError("text")


def _read_int(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = int(value) if len(value) < 32 else None
        except ValueError:
            value = None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not MIN_LONG <= value <= MAX_LONG:
        raise _MismatchError("a 64-bit integer")
    return int(value)


def _read_float(value: Any) -> float:
    if isinstance(value, str) and len(value) < 32:
        try:
            return float(value)
        except ValueError:
            pass
    elif isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise _MismatchError("a number")


_TRUTH: dict[Any, bool] = {"true": True, "1": True, "y": True, "false": False, "0": False, "n": False}


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    truth = _TRUTH.get(value.lower()) if isinstance(value, str) else None
    if truth is None:
        raise _MismatchError("true or false")
    return truth


def _read_kept(value: Any) -> Any:
    if isinstance(value, dict | list) and is_deeper(value, MAX_KEPT_DEPTH):
        raise _MismatchError(f"nested at most {MAX_KEPT_DEPTH} deep")
    return value


_JOINS: dict[Any, Callable[[list[Any]], Any]] = {
    Sequence: lambda parts: tuple(chain.from_iterable(parts)),
    Mapping: lambda parts: dict(chain.from_iterable(part.items() for part in parts)),
}
_SIMPLE: dict[Any, _Read] = {
    str: _read_str,
    int: _read_int,
    float: _read_float,
    bool: _read_bool,
    Any: _read_kept,
}
