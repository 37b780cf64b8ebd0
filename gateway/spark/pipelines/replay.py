"""A part of an archive back into a topic, through the sink: at least once.

With ``keep_queues``, each queue keeps its order. Otherwise the sink spreads the messages over the topic's queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gateway.spark.errors import OptionRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The choice of archived messages, and their destination.

    :param path: the path of the archive.
    :param begin: only messages stored at this time or later; None for all.
    :param end: only messages stored before this time; None for all.
    :param from_topic: the only topic of the archive to send; None for all topics.
    :param sink: options of the sink: ``nameServer``, and ``topic`` unless each message goes to its original topic.
    :param keep_queues: whether a message goes to the queue with its original number.
    """

    path: str
    sink: Mapping[str, str]
    begin: datetime | None = None
    end: datetime | None = None
    from_topic: str | None = None
    keep_queues: bool = False


def replay(spark: SparkSession, options: ReplayOptions) -> int:
    """Send the messages of the range, and return how many there were.

    :raises OptionRefused: the archive lacks a column such as the bodies, or the range ends before it begins.
    """
    rows = replayed_rows(spark, options)
    count: int = rows.count()
    if count:
        rows.write.format("rocketmq").options(**options.sink).mode("append").save()
    return count


def replayed_rows(spark: SparkSession, options: ReplayOptions) -> DataFrame:
    """Return the messages to send, each queue's messages in one task and in their order."""
    from pyspark.sql import functions as F  # noqa: N812

    if options.begin is not None and options.end is not None and options.end <= options.begin:
        raise OptionRefused(f"the range ends at {options.end}, before it begins at {options.begin}")
    rows = spark.read.parquet(options.path)
    for name in ("body", "topic", "queueId", "brokerName", "queueOffset", "storeTimestamp"):
        if name not in rows.columns:
            advice = ": archive with --keep-body what is to be sent again" if name == "body" else ""
            raise OptionRefused(f"the archive {options.path} has no column {name}{advice}")
    if options.begin is not None:
        rows = rows.where(F.col("storeTimestamp") >= F.lit(options.begin))
    if options.end is not None:
        rows = rows.where(F.col("storeTimestamp") < F.lit(options.end))
    if options.from_topic is not None:
        rows = rows.where(F.col("topic") == options.from_topic)
    queue = ("topic", "brokerName", "queueId")
    rows = rows.repartition(spark.sparkContext.defaultParallelism, *queue)
    dropped = ["brokerName", "eventDate", "value", "unreadBody"] + ([] if options.keep_queues else ["queueId"])
    return rows.sortWithinPartitions(*queue, "queueOffset").drop(*dropped)
