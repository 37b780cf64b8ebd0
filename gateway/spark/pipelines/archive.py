"""Committed queues into Parquet, partitioned by date and topic.

Exactly once over restarts: offsets are in the checkpoint, and Spark's file sink writes down which files each batch
made (``_spark_metadata``), which its readers go by. Small files: all rows of a batch with the same date and topic are
brought together, so a batch makes ``files`` files for each, and a batch has as many rows as ``max_offsets`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.spark.errors import OptionRefused
from gateway.spark.pipelines.decoding import BYTES, check_decoding, decoded
from gateway.spark.pipelines.first_batch import forget_half_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT: Final = "_checkpoint"
"""Below the archive; names that begin like this are no data for readers of Parquet."""
STORED: Final = "stored"
BORN: Final = "born"
_DAYS: Final = {STORED: "storeTimestamp", BORN: "bornTimestamp"}
MAX_OFFSETS: Final = 5_000_000
MAX_FILE_ROWS: Final = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """What goes where.

    :param source: options of the source: ``nameServer``, ``subscribe`` …
    :param path: directory of the archive, on anything Spark writes to; ``checkpoint`` below it unless given.
    :param body_format: one of ``decoding.FORMATS``, by ``schema``; ``keep_body`` keeps the bytes beside the values,
        ``fails_on_unread`` makes a body that is none of this an error.
    :param date_of: which time of a message makes its ``eventDate``.
    :param files: for each batch, date and topic.
    :param every_s: seconds between batches of a run that does not end; None: what is there now, and end.
    """

    source: Mapping[str, str]
    path: str
    checkpoint: str | None = None
    body_format: str = BYTES
    schema: str | None = None
    keep_body: bool = False
    fails_on_unread: bool = False
    date_of: str = STORED
    files: int = 1
    max_offsets: int = MAX_OFFSETS
    max_file_rows: int = MAX_FILE_ROWS
    every_s: float | None = None
    columns: tuple[str, ...] = field(default=())
    """Of the source; empty for all. ``topic``, ``body`` and the time of the date are there in any case."""


def start_archive(spark: SparkSession, options: ArchiveOptions) -> Any:
    """The streaming query that archives, started.

    :raises OptionRefused: options do not go together.
    """
    check_decoding(options.body_format, options.schema)
    if options.date_of not in _DAYS:
        raise OptionRefused(f"date_of is {options.date_of!r}; it must be {STORED} or {BORN}")
    checkpoint = options.checkpoint or f"{options.path.rstrip('/')}/{CHECKPOINT}"
    forget_half_written(spark, checkpoint)
    source = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(options.max_offsets), **options.source}
    reader = spark.readStream.format("rocketmq").options(**source)
    rows = (reader.schema(_schema(options)) if options.columns else reader).load()
    writer = (
        _arranged(rows, options, spark.sparkContext.defaultParallelism)
        .writeStream.format("parquet")
        .option("path", options.path)
        .option("checkpointLocation", checkpoint)
        .option("maxRecordsPerFile", str(options.max_file_rows))
        .partitionBy("eventDate", "topic")
    )
    if options.every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.every_s:g} seconds").start()


def _schema(options: ArchiveOptions) -> str:
    from gateway.spark.table.schema import known_columns

    known = known_columns(json_properties=False)
    names = (*options.columns, "topic", "body", "queueId", _DAYS[options.date_of])
    wanted = dict.fromkeys(name.lower() for name in names)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise OptionRefused(f"there is no column {missing[0]!r}; the columns are {', '.join(known)}")
    return ", ".join(f"{known[name].name} {known[name].ddl}" for name in wanted)


def _arranged(rows: DataFrame, options: ArchiveOptions, tasks: int) -> DataFrame:
    """Rows with their date, decoded, and those that belong into one file in one task."""
    from pyspark.sql import functions as F  # noqa: N812

    dated = rows.withColumn("eventDate", F.to_date(_DAYS[options.date_of]))
    spread = F.pmod(F.col("queueId"), F.lit(options.files))
    together = dated.repartition(tasks, "eventDate", "topic", spread)
    given = {"keep_body": options.keep_body, "fails": options.fails_on_unread}
    return decoded(together, options.body_format, options.schema, **given)
