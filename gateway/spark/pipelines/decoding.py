"""Bodies as values: JSON, CSV or Avro by a declared schema. A body that does not fit the schema keeps its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.spark.errors import OptionRefused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BYTES: Final = "bytes"
AVRO: Final = "avro"
FORMATS: Final = (BYTES, "json", "csv", AVRO)
_DAMAGED: Final = "_damaged"
"""The column in which Spark's readers put a text that they cannot read; removed again here."""


def check_decoding(body_format: str, schema: str | None) -> None:
    """Refuse a format and a schema that do not go together.

    :raises OptionRefused: the format is unknown, or the schema is missing, useless or unreadable.
    :raises NotReady: a package is missing.
    """
    if body_format not in FORMATS:
        raise OptionRefused(f"format is {body_format!r}; it must be one of {', '.join(FORMATS)}")
    if (schema is None) != (body_format == BYTES):
        says = "has no use" if schema is not None else "is missing: it says what the bodies hold"
        raise OptionRefused(f"with the format {body_format} a schema {says}")
    if body_format == AVRO and schema is not None:
        from gateway.spark.pipelines.avro import avro_schema

        avro_schema(schema)


def decoded(
    frame: DataFrame, body_format: str, schema: str | None, *, keep_body: bool, fails: bool = False
) -> DataFrame:
    """Return the rows with their bodies as a column ``value``.

    :param schema: the schema in Spark's words (``"id bigint, total double"``), for Avro as JSON.
    :param keep_body: whether ``body`` stays beside ``value``. ``unreadBody`` holds a body that could not be decoded,
        otherwise null.
    :param fails: whether a body that cannot be decoded fails the query.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    if body_format == BYTES:
        return frame
    assert schema is not None, "checked before"
    frame = frame.withColumn("value", _avro(schema) if body_format == AVRO else _text(body_format, schema))
    damaged = F.col("value").isNull()
    if body_format != AVRO:
        damaged = damaged | F.col(f"value.{_DAMAGED}").isNotNull()
    unread = _refusal(frame, body_format) if fails else F.col("body")
    frame = frame.withColumn("unreadBody", F.when(damaged, unread))
    if body_format != AVRO:
        frame = frame.withColumn("value", F.when(~damaged, F.col("value").dropFields(_DAMAGED)))
    return frame if keep_body else frame.drop("body")


def _avro(schema: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import to_arrow_type

    from gateway.spark.pipelines.avro import avro_reader, avro_schema

    found = avro_schema(schema)
    arrow_type = to_arrow_type(found.data_type, timezone="UTC")
    value: Column = F.arrow_udf(avro_reader(found, arrow_type), found.data_type)(F.col("body"))
    return value


def _text(body_format: str, schema: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("body").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _DAMAGED}
    with_damaged = f"{schema}, {_DAMAGED} string"
    return (
        F.from_json(text, with_damaged, options) if body_format == "json" else F.from_csv(text, with_damaged, options)
    )


def _refusal(frame: DataFrame, body_format: str) -> Column:
    """Return an error that names the message."""
    from pyspark.sql import functions as F  # noqa: N812

    known = [name for name in ("topic", "brokerName", "queueId", "queueOffset", "msgId") if name in frame.columns]
    place = [part for name in known for part in (F.lit(f" {name} "), F.col(name).cast("string"))]
    text = F.concat(F.lit(f"a body is not {body_format} of the schema:"), *place)
    return F.raise_error(text).cast("binary")
