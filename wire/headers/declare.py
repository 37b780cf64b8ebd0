"""Declarations of headers: how a header is declared, read from ext fields, and written to them.

    class GetMinOffsetRequest(Header):
        topic: str
        queue_id: Int32

The wire name of a field is its attribute in camel case, or the name in ``field(name=...)``. Reading is done by
msgspec's decoder (C). Writing is done by a function that is compiled once for each class from the same declaration. A
loop over a plan took three to five times as long, and both happen for every message.

Reading is as lenient as the Java broker, on purpose. Unknown fields are ignored (signatures, namespaces, ``bname``,
zones), booleans take any case, and a field with a default may be missing. A missing field without a default is refused
at once; Java logs such a field and fails later with a ``NullPointerException``. msgspec also takes ``1.0`` and ``1e3``
as numbers, and ``1`` as true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import msgspec
from msgspec import field

from wire.command import RemotingCommand
from wire.errors import FieldError, LocalError

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


__all__ = ["Header", "Int32", "Int64", "build_header", "field", "parse_header", "read_header", "with_letters"]

# Java's int and long. A number outside its width is refused, as ``Integer.parseInt`` refuses it.
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

H = TypeVar("H", bound="Header")


class HeaderType(msgspec.StructMeta):
    """A metaclass that makes every header keyword-only, because structs do not inherit that option."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **stated: Any) -> HeaderType:
        return super().__new__(mcs, name, bases, namespace, **{**stated, "kw_only": True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", metaclass=HeaderType):
    """The ext fields of one kind of command. A field is a str, Int32, Int64 or bool, or one of these types or None.

    Headers are frozen, slotted and keyword-only, and compare by value; ``msgspec.structs.replace`` makes changed
    copies.
    """


def parse_header(cls: type[H], ext_fields: Mapping[str, str]) -> H:
    """Read the fields of a header class.

    :raises FieldError: a required field is missing, or a field has the wrong type.
    """
    try:
        return msgspec.convert(ext_fields, cls, strict=False)
    except msgspec.ValidationError:
        return _parse_field_by_field(cls, ext_fields)


def read_header(cls: type[H], command: RemotingCommand) -> H:
    """Read the fields of a header class from a command, for hot paths: no mapping is made in between.

    :raises FieldError: a required field is missing, or a field has the wrong type.
    """
    known = command.header
    if type(known) is cls:
        return known
    ext_json = command.fields_json()
    if ext_json is not None:
        decode = _DECODERS.get(cls)
        if decode is None:
            decode = _DECODERS[cls] = msgspec.json.Decoder(cls, strict=False).decode
        try:
            header: H = decode(ext_json)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass  # read more leniently, or refused, below
        else:
            return header
    return parse_header(cls, command.ext_fields)


def build_header(header: Header) -> dict[str, str]:
    """Return the ext fields of a header in the order of declaration; fields that are None are left out."""
    cls = type(header)
    build = _BUILDERS.get(cls)
    if build is None:
        build = _BUILDERS[cls] = _compile_builder(cls)
    return build(header)


def with_letters(cls: type[H]) -> type[H]:
    """Return the header with one-letter wire names: ``a`` for the field declared first, ``b`` for the next field.

    The result is a subclass. Only the send requests have such names (upstream: header "V2").
    """
    namespace: dict[str, Any] = {
        "__annotations__": get_type_hints(cls, include_extras=True),
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
    }
    for letter, declared in zip("abcdefghijklmnopqrstuvwxyz", msgspec.structs.fields(cls), strict=False):
        namespace[declared.name] = field(name=letter, default=declared.default)
    return HeaderType(f"Short{cls.__name__}", (cls,), namespace)  # type: ignore[return-value]


# One function each per header class; as many entries as there are classes.
_DECODERS: Final[dict[type[Header], Callable[[bytes], Any]]] = {}
_BUILDERS: Final[dict[type[Header], Callable[[Any], dict[str, str]]]] = {}

_EXPECTED: Final[Mapping[object, str]] = {
    Int32: "an integer of 32 bits",
    Int64: "an integer of 64 bits",
    bool: "true or false",
    str: "text",
}


class _Field(NamedTuple):
    """One field in the plan of its class; ``kind`` is Int32, Int64, bool or str."""

    attribute: str
    wire_name: str
    kind: object
    required: bool
    nullable: bool


@lru_cache(maxsize=512)
def _plan(cls: type[Header]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    plan: list[_Field] = []
    for declared in msgspec.structs.fields(cls):
        hint = hints[declared.name]
        members = [hint] if hint in _EXPECTED else list(get_args(hint))
        nullable = type(None) in members
        kinds = [member for member in members if member in _EXPECTED]
        if len(kinds) != 1:
            raise LocalError(f"{cls.__name__}.{declared.name}: {hint} cannot be an ext field")
        plan.append(_Field(declared.name, declared.encode_name, kinds[0], declared.required, nullable))
    return tuple(plan)


def _compile_builder(cls: type[Header]) -> Callable[[Any], dict[str, str]]:
    lines = ["def build(header):", " fields = {}"]
    for entry in _plan(cls):
        lines.append(f" value = header.{entry.attribute}")
        text = "value" if entry.kind is str else "text(value)" if entry.kind is bool else "f'{value}'"
        condition = " if value is not None:" if entry.nullable else ""
        lines.append(f"{condition} fields[{entry.wire_name!r}] = {text}")
    lines.append(" return fields")
    namespace: dict[str, Any] = {"text": build_text}
    exec("\n".join(lines), namespace)  # noqa: S102 - the source is made of the declaration alone
    build: Callable[[Any], dict[str, str]] = namespace["build"]
    return build


def _parse_field_by_field(cls: type[H], ext_fields: Mapping[str, str]) -> H:
    """Read text that is not canonical but that Java takes (``+5``, ``007``, any word as false).

    Raise FieldError for all other text, and for a missing required field.
    """
    values: dict[str, Any] = {}
    for entry in _plan(cls):
        text = ext_fields.get(entry.wire_name)
        if text is not None:
            values[entry.attribute] = _parse_field(cls.__name__, entry, text)
        elif entry.required:
            raise FieldError(cls.__name__, entry.wire_name, None, _EXPECTED[entry.kind])
    return cls(**values)


def _parse_field(header: str, entry: _Field, text: str) -> str | int:
    if entry.kind is str:
        return text
    if entry.kind is bool:
        return parse_bool(text)
    value = parse_int(text, 64 if entry.kind == Int64 else 32)
    if value is None:
        raise FieldError(header, entry.wire_name, text, _EXPECTED[entry.kind])
    return value
