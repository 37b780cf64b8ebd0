"""Bodies of any size that nobody sends, made from the declarations of their classes."""

from __future__ import annotations

import importlib
import json
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

import wire.bodies
from wire.bodies.declare import JsonObject, Members, Ordinals, Undeclared
from wire.bodies.fastjson import build_json, object_key
from wire.disk import config_json

Shape: TypeAlias = Callable[[int], str]


def body_classes() -> list[type[JsonObject]]:
    """All classes of bodies, of their parts and of files."""
    modules = [
        importlib.import_module(module.name) for module in pkgutil.walk_packages(wire.bodies.__path__, "wire.bodies.")
    ]
    modules.append(config_json)
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, JsonObject) and value.__struct_fields__
    }
    return sorted(found, key=lambda cls: (cls.__module__, cls.__name__))


def shapes(cls: type[JsonObject]) -> Iterator[tuple[str, Shape]]:
    """The shapes of a class by name; each gives a JSON text of about so many bytes.

    Each table and list with the smallest entries; each other member again and again; members that nobody declared.
    """
    yield "unknown members", partial(_unknown, cls)
    for declared in msgspec.structs.fields(cls):
        entry = _entry(declared.type)
        if entry is None:
            yield f"{declared.encode_name} again and again", partial(_repeated, cls, declared.encode_name)
        else:
            yield declared.encode_name, partial(_filled, cls, declared.encode_name, entry)


def _unknown(cls: type[JsonObject], size: int) -> str:
    return _object(minimal(cls), (f'"{at:x}":1' for at in range(size // 9)))


def _repeated(cls: type[JsonObject], name: str, size: int) -> str:
    return _object(minimal(cls), (f'"{name}":1' for _ in range(size // (len(name) + 5))))


def _filled(cls: type[JsonObject], name: str, entry: Shape, size: int) -> str:
    return _object({key: value for key, value in minimal(cls).items() if key != name}, [f'"{name}":{entry(size)}'])


def minimal(cls: type[JsonObject]) -> dict[str, Any]:
    """The least members with which a class can be read."""
    return {
        declared.encode_name: _least(declared.type) for declared in msgspec.structs.fields(cls) if declared.required
    }


def _object(members: Mapping[str, Any], more: Iterable[str]) -> str:
    text = str(build_json(members, java_form=True), "utf-8")[1:-1]
    return "{" + ",".join([*([text] if text else []), *more]) + "}"


def _least(hint: Any) -> Any:
    hint = _bare(hint)
    if isinstance(hint, type) and issubclass(hint, JsonObject):
        return minimal(hint)
    origin = typing.get_origin(hint)
    if origin in (Sequence, tuple, frozenset):
        return []
    if origin is Mapping:
        return {}
    return {str: "t", int: 0, float: 0.5, bool: True}.get(hint, "a")


def _bare(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint


def _entry(hint: Any) -> Shape | None:
    """The text of a table or list of a size; None where a value is neither."""
    marks = getattr(hint, "__metadata__", ())
    for mark in marks:
        if isinstance(mark, Members):
            return _list_of(json.dumps({mark.name: "t"}, separators=(",", ":")))
        if isinstance(mark, Ordinals | Undeclared):
            return None
    hint = _bare(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Sequence, tuple, frozenset):
        if arguments[0] is int:
            return lambda size: "[" + ",".join(str(at << 32) for at in range(size // 14)) + "]"
        if arguments[0] is str:
            return lambda size: "[" + ",".join(f'"{at:x}"' for at in range(size // 8)) + "]"
        return _list_of(_text(_least(arguments[0])))
    if origin is Mapping:
        return _table_of(arguments[0], _text(_least(arguments[1])))
    return None


def _text(value: Any) -> str:
    return str(build_json(value, java_form=True), "utf-8")


def _list_of(item: str) -> Shape:
    return lambda size: "[" + ",".join([item] * (size // (len(item) + 1))) + "]"


def _table_of(key: Any, item: str) -> Shape:
    before, after = "", ""
    if isinstance(key, type) and issubclass(key, JsonObject):
        before, after = object_key({**minimal(key), "queueId": 4711}).split("4711")
    elif key is str:
        before = after = '"'
    width = len(before) + 5 + len(after) + len(item) + 2
    return lambda size: "{" + ",".join(f"{before}{at}{after}:{item}" for at in range(size // width)) + "}"
