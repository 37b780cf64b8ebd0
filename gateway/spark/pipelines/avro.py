"""Bodies in Avro, by a declared schema: the types of their values, and decoding in the workers with fastavro.

A body is one datum in Avro's binary encoding, without a header: no file, no fingerprint, no registry's id. A body does
not say by which schema it was written. Therefore a body with bytes after the end of its datum is unreadable too.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gateway.spark.errors import NotReady, OptionRefused

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_SIMPLE: Final[Mapping[str, str]] = {
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "fixed": "BinaryType",
    "string": "StringType",
    "enum": "StringType",
}
_LOGICAL: Final[Mapping[str, str]] = {
    "date": "DateType",
    "timestamp-millis": "TimestampType",
    "timestamp-micros": "TimestampType",
    "local-timestamp-millis": "TimestampNTZType",
    "local-timestamp-micros": "TimestampNTZType",
}
"""The logical types that Spark has a type for, besides ``decimal``.

Values of other logical types stay as they are stored, as in Spark's own package.
"""
_MAX_PRECISION: Final = 38
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_UNREADABLE: Final = (EOFError, LookupError, ValueError, ArithmeticError, TypeError, struct.error)
"""The errors that fastavro raises for bytes that are no datum of the schema."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema as fastavro takes it, and the values' type in Spark."""

    document: Any
    data_type: DataType


def avro_schema(text: str) -> AvroSchema:
    """Read a schema, a JSON document.

    :raises OptionRefused: the text is no schema, or has a type that a column cannot have; the error says where.
    :raises NotReady: fastavro is not installed.
    """
    if find_spec("fastavro") is None:
        raise NotReady('fastavro is not installed: pip install "rocketmq-gateway[spark]"')
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        document = _plain(json.loads(text))
        parse_schema(document)
    except (ValueError, SchemaParseException, UnknownType, LookupError, TypeError, AttributeError) as error:
        raise OptionRefused(f"schema: this is no schema of Avro: {error!r}") from error
    types = _Types()
    found, is_nullable = types.of(document, "")
    if is_nullable:
        raise OptionRefused("schema: as a whole it may be null, and then values would look like what cannot be read")
    return AvroSchema(document, found)


def avro_reader(schema: AvroSchema, arrow_type: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Return a function that turns bodies into values, with null for an unreadable body.

    The function travels to the workers.

    :param arrow_type: the type of the values, as Spark wants them.
    """
    document = schema.document

    def read(bodies: pa.Array) -> pa.Array:
        from fastavro import parse_schema

        values = read_bodies(parse_schema(document), bodies.to_pylist())
        try:
            return pa.array(values, arrow_type)
        except (pa.ArrowException, *_UNREADABLE):  # a number is too large for its type: find out which
            return pa.array([_fitting(value, arrow_type) for value in values], arrow_type)

    return read


def read_bodies(parsed: Any, bodies: Sequence[bytes | None]) -> list[Any]:
    """Return the bodies as Python values; None for an unreadable body.

    :param parsed: fastavro's form of a schema.
    """
    from fastavro import schemaless_reader

    values: list[Any] = []
    for body in bodies:
        value = None
        if body is not None:
            stream = io.BytesIO(body)
            try:
                value = schemaless_reader(stream, parsed, None)
            except _UNREADABLE:
                value = None
            if stream.tell() != len(body):
                value = None
        values.append(value)
    return values


def _fitting(value: Any, arrow_type: pa.DataType) -> Any:
    try:
        pa.array([value], arrow_type)
    except (pa.ArrowException, *_UNREADABLE):
        return None
    return value


def _plain(document: Any) -> Any:
    """Return a schema without the logical types that Spark has no type for."""
    if isinstance(document, list):
        return [_plain(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    kept = {name: _plain(entry) if name in ("type", "fields", "items", "values") else entry
            for name, entry in document.items()}  # fmt: skip
    logical = kept.get("logicalType")
    if logical is not None and logical != "decimal" and logical not in _LOGICAL:
        del kept["logicalType"]
    return kept


@dataclass(slots=True)
class _Types:
    """Avro's types as Spark's; types that were defined earlier are known by name."""

    _named: dict[str, DataType | None] = field(default_factory=dict)
    """The known types by name; None while a type is being defined."""

    def of(self, schema: Any, where: str) -> tuple[DataType, bool]:
        """Return the type of a schema, and whether a value may be null.

        :param where: the place in the document, for errors.
        """
        if isinstance(schema, list):
            return self._union(schema, where)
        if isinstance(schema, str):
            return self._called(schema, where), False
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind, where)
        return self._defined(kind, schema, where), False

    def _union(self, members: list[Any], where: str) -> tuple[DataType, bool]:
        others = [member for member in members if member != "null"]
        is_nullable = len(others) < len(members)
        names = frozenset(member for member in others if isinstance(member, str))
        if len(others) == 2 and names in _WIDER:
            return self._called(_WIDER[names], where), is_nullable
        if len(others) != 1:
            raise OptionRefused(f"schema: {_place(where)} is a union of {len(others)} types: a column has one")
        found, _ = self.of(others[0], where)
        return found, is_nullable

    def _called(self, name: str, where: str) -> DataType:
        if name in _SIMPLE:
            return _spark_type(_SIMPLE[name])
        short = name.rpartition(".")[2]
        found = self._named.get(short)
        if found is not None:
            return found
        says = "contains itself" if short in self._named else f"has the type {name}, of which there are no columns"
        raise OptionRefused(f"schema: {_place(where)} {says}")

    def _defined(self, kind: str, schema: Mapping[str, Any], where: str) -> DataType:
        from pyspark.sql.types import ArrayType, DecimalType, MapType, StructField, StructType

        name = schema["name"].rpartition(".")[2] if "name" in schema else ""
        if name in self._named:
            raise OptionRefused(
                f"schema: {_place(where)} defines {name} again: names must differ here, also of namespaces"
            )
        if schema.get("logicalType") == "decimal":
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if not isinstance(precision, int) or not 0 < precision <= _MAX_PRECISION:
                raise OptionRefused(
                    f"schema: {_place(where)} is a decimal of {precision} digits: 1 to {_MAX_PRECISION}"
                )
            found: DataType = DecimalType(precision, scale)
        elif schema.get("logicalType") in _LOGICAL:
            found = _spark_type(_LOGICAL[schema["logicalType"]])
        elif kind == "array":
            found = ArrayType(*self.of(schema["items"], f"{where}[]"))
        elif kind == "map":
            found = MapType(_spark_type("StringType"), *self.of(schema["values"], f"{where}[]"))
        elif kind in ("record", "error"):
            self._named[name] = None
            if not schema.get("fields"):
                raise OptionRefused(f"schema: {_place(where)} has no fields")
            fields = [
                StructField(entry["name"], *self.of(entry["type"], f"{where}.{entry['name']}".lstrip(".")))
                for entry in schema["fields"]
            ]
            found = StructType(fields)
        else:
            found = self._called(kind, where)
        if name:
            self._named[name] = found
        return found


def _spark_type(name: str) -> DataType:
    from pyspark.sql import types

    made: DataType = getattr(types, name)()
    return made


def _place(where: str) -> str:
    return f"the field {where}" if where else "the schema"
