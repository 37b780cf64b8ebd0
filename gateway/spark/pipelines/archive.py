"""Committed queues into Parquet, partitioned by date and topic.

The archive is exactly once over restarts. The checkpoint has the offsets, and Spark's file sink lists the files of each
batch (``_spark_metadata``), which its readers follow.

A batch makes few files, because all its rows with the same date and topic are brought together. There are ``files``
files for each date and topic, and a batch has as many rows as ``max_offsets`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.spark.errors import OptionRefused
from gateway.spark.pipelines.decoding import BYTES, check_decoding, decoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT: Final = "_checkpoint"
"""The checkpoint's folder below the archive; readers of Parquet skip names that begin with ``_``."""
STORED: Final = "stored"
BORN: Final = "born"
_DAYS: Final = {STORED: "storeTimestamp", BORN: "bornTimestamp"}
MAX_OFFSETS: Final = 5_000_000
MAX_FILE_ROWS: Final = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """The source and the form of an archive.

    :param source: options of the source: ``nameServer``, ``subscribe`` …
    :param path: directory of the archive, on any filesystem that Spark writes to.
    :param checkpoint: directory of the checkpoint; ``CHECKPOINT`` below ``path`` if None.
    :param body_format: one of ``decoding.FORMATS``; ``schema`` describes the bodies.
    :param keep_body: whether the bytes are kept beside the values.
    :param fails_on_unread: whether a body that does not fit the format is an error.
    :param date_of: the time of a message that makes its ``eventDate``.
    :param files: how many files for each batch, date and topic.
    :param every_s: seconds between batches of a run that does not end; None: archive the present messages, and end.
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
    """The columns of the source; empty for all.

    ``topic``, ``body``, ``queueId`` and the date's time are always included.
    """


def start_archive(spark: SparkSession, options: ArchiveOptions) -> Any:
    """Start and return the streaming query that archives.

    :raises OptionRefused: an option is wrong, or options exclude each other.
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
    """Return decoded rows with their date; rows for the same file are in the same task."""
    from pyspark.sql import functions as F  # noqa: N812

    dated = rows.withColumn("eventDate", F.to_date(_DAYS[options.date_of]))
    spread = F.pmod(F.col("queueId"), F.lit(options.files))
    together = dated.repartition(tasks, "eventDate", "topic", spread)
    given = {"keep_body": options.keep_body, "fails": options.fails_on_unread}
    return decoded(together, options.body_format, options.schema, **given)


def forget_half_written(spark: SparkSession, checkpoint: str) -> None:
    """Delete the half-written files of a checkpoint without a batch, on any filesystem that Spark writes to.

    :param spark: a session with its JVM, not one over Spark Connect.
    """
    java: Any = spark
    offsets = java._jvm.org.apache.hadoop.fs.Path(checkpoint, "offsets")
    files = offsets.getFileSystem(java._jsc.hadoopConfiguration())
    if not files.exists(offsets):
        return
    found = [status.getPath() for status in files.listStatus(offsets)]
    if all(_is_half_written(path.getName()) for path in found):
        for path in found:
            files.delete(path, False)


def _is_half_written(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
