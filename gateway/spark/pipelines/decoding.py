"""Bodies as values: JSON, CSV or Avro by a declared schema. What does not fit the schema keeps its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.spark.errors import OptionRefused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BYTES: Final = "bytes"
FORMATS: Final = (BYTES, "json", "csv", "avro")
_DAMAGED: Final = "_damaged"
"""Where Spark's readers put a text that they cannot read; taken out again here."""


def avro_package() -> str:
    """Maven coordinates of Spark's Avro functions, which PySpark does not bring."""
    import pyspark

    return f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"


def check_decoding(body_format: str, schema: str | None) -> None:
    """Refuse what does not go together.

    :raises OptionRefused: a schema is missing or has no use, or no such format.
    """
    if body_format not in FORMATS:
        raise OptionRefused(f"format is {body_format!r}; it must be one of {', '.join(FORMATS)}")
    if (schema is None) != (body_format == BYTES):
        says = "has no use" if schema is not None else "is missing: it says what the bodies hold"
        raise OptionRefused(f"with the format {body_format} a schema {says}")


def decoded(frame: DataFrame, body_format: str, schema: str | None, *, keep_body: bool) -> DataFrame:
    """The rows with their bodies as a column ``value``.

    :param schema: in Spark's words (``"id bigint, total double"``), for Avro as JSON.
    :param keep_body: whether ``body`` stays; else it becomes ``unreadBody``: null unless it could not be decoded.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    if body_format == BYTES:
        return frame
    assert schema is not None, "checked before"
    value = _value(body_format, schema)
    frame = frame.withColumn("value", value)
    damaged = F.col("value").isNull()
    if body_format != "avro":
        damaged = damaged | F.col(f"value.{_DAMAGED}").isNotNull()
    frame = frame.withColumn("unreadBody", F.when(damaged, F.col("body")))
    if body_format != "avro":
        frame = frame.withColumn("value", F.when(~damaged, F.col("value").dropFields(_DAMAGED)))
    return frame if keep_body else frame.drop("body")


def _value(body_format: str, schema: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    if body_format == "avro":
        from pyspark.sql.avro.functions import from_avro

        return from_avro(F.col("body"), schema, {"mode": "PERMISSIVE"})
    text = F.col("body").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _DAMAGED}
    with_damaged = f"{schema}, {_DAMAGED} string"
    return (
        F.from_json(text, with_damaged, options) if body_format == "json" else F.from_csv(text, with_damaged, options)
    )
