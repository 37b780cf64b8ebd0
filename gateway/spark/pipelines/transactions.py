"""The life of every transaction, read from the topics that its broker keeps: half, op, given-up and real ones.

    half record                      born, prepared, group, meant for which topic
    op record                        settled when; this gateway says how (``TRANSACTION_OUTCOMES``) and after how many
                                     checks (``TRANSACTION_CHECKS``), Apache RocketMQ not
    final message in the real topic  committed; it names the half record's place in the commit log
    record in TRANS_CHECK_MAX_TIME_TOPIC  given up, after how many checks

Apache RocketMQ writes a half message again for every check. The copies name the first half message, and all are one
transaction here.

Without an op record, a transaction is pending. If the op record does not name the outcome, a final message means
committed, a given-up copy means given up, and otherwise the transaction was rolled back. A gateway that keeps its
pending transactions in a table or a database writes no op records, so its transactions are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from gateway.spark.errors import OutcomesUnknown
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from gateway.spark.asking.cluster import Cluster

HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
OUTCOMES: Final = "TRANSACTION_OUTCOMES"
CHECKS: Final = "TRANSACTION_CHECKS"
STATE_STORE: Final = "transactionStateStore"
"""The gateway's setting for the state store; Apache RocketMQ has no such setting, and keeps op records."""
QUEUE: Final = "queue"
"""The state store that has op records."""
COMMITTED: Final = "committed"
ROLLED_BACK: Final = "rolled_back"
GIVEN_UP: Final = "given_up"
PENDING: Final = "pending"
ALL_OUTCOMES: Final = (COMMITTED, ROLLED_BACK, GIVEN_UP, PENDING)
_LETTERS: Final = {"c": COMMITTED, "r": ROLLED_BACK, "d": GIVEN_UP}
"""The outcomes of the letters in ``TRANSACTION_OUTCOMES``.

Other letters say that a record is settled, but not how.
"""
_LATER: Final = timedelta(days=4)
"""The longest time from a half message to its outcome.

Brokers give a half message up after ``fileReservedTime``, 72 hours.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """The choice of transactions: their half messages were stored on the given days in UTC, the last day included.

    :param source: options of the source: ``nameServer``, ``accessKey`` …; no option that chooses what to read.
    """

    source: Mapping[str, str]
    first_day: date
    last_day: date

    @property
    def begin(self) -> datetime:
        """The first moment of the days."""
        return datetime.combine(self.first_day, time(), UTC)

    @property
    def end(self) -> datetime:
        """The moment after the days."""
        return datetime.combine(self.last_day, time(), UTC) + timedelta(days=1)


def lives(spark: SparkSession, options: TransactionOptions) -> DataFrame:
    """Return one row for each transaction; docs/spark/pipelines.md describes the columns.

    :raises OutcomesUnknown: a broker keeps no op records.
    """
    from pyspark.sql import functions as F  # noqa: N812

    with _cluster(options) as cluster:
        check_state_stores(cluster)
    halves = _halves(spark, options).cache()
    named = [row.topic for row in halves.select("topic").distinct().collect() if row.topic]
    topics = _existing(options, [*sorted(named), GIVEN_UP_TOPIC])
    copies = halves.join(_ops(spark, options), ["brokerName", "halfOffset"], "left")
    finals = _finals(spark, options, [topic for topic in topics if topic != GIVEN_UP_TOPIC])
    if finals is not None:
        copies = copies.join(finals, ["brokerName", "commitLogOffset"], "left")
    else:
        copies = copies.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in _FINAL_COLUMNS.items()))
    found = _one_row_each(copies)
    if GIVEN_UP_TOPIC not in topics:
        found = found.withColumn("givenUp", F.lit(None).cast("timestamp")).withColumn("lastChecks", F.lit(0))
    else:
        found = found.join(_given_up(spark, options), ["brokerName", "transactionId", "producerGroup"], "left")
    return _judged(found)


def _read(spark: SparkSession, options: TransactionOptions, topic: str, schema: str) -> DataFrame:
    bounds = {
        "startingTimestamp": str(int(options.begin.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": str(int((options.end + _LATER).timestamp() * 1000)),
    }
    reader = spark.read.format("rocketmq").options(**options.source, **bounds).schema(schema)
    return reader.options(
        subscribe=topic, allowSystemTopics="true", minPartitions=str(spark.sparkContext.defaultParallelism)
    ).load()


def _halves(spark: SparkSession, options: TransactionOptions) -> DataFrame:
    """Return every half record, including the copies that Apache RocketMQ writes for checks."""
    from pyspark.sql import functions as F  # noqa: N812

    schema = (
        "brokerName string, queueOffset bigint, commitLogOffset bigint, bornTimestamp timestamp, "
        "storeTimestamp timestamp, msgId string, keys array<string>, properties map<string,string>"
    )
    rows = _read(spark, options, HALF_TOPIC, schema)
    offset = F.col("queueOffset")
    return rows.select(
        "brokerName",
        offset.alias("halfOffset"),
        F.coalesce(_property(PropertyName.TRAN_PREPARED_QUEUE_OFFSET).cast("bigint"), offset).alias("firstOffset"),
        "commitLogOffset",
        F.col("bornTimestamp").alias("born"),
        F.col("storeTimestamp").alias("stored"),
        F.col("msgId").alias("transactionId"),
        "keys",
        _property(PropertyName.PGROUP).alias("producerGroup"),
        _property(PropertyName.REAL_TOPIC).alias("topic"),
        _property(PropertyName.TRANSACTION_CHECK_TIMES).cast("int").alias("checks"),
    )


def _ops(spark: SparkSession, options: TransactionOptions) -> DataFrame:
    """Return each settled half record once, with time, letter and number of checks."""
    from pyspark.sql import functions as F  # noqa: N812

    schema = "brokerName string, body binary, storeTimestamp timestamp, properties map<string,string>"
    rows = _read(spark, options, OP_TOPIC, schema)
    texts = F.filter(F.split(F.col("body").cast("string"), ","), lambda text: F.trim(text).rlike(r"^\d{1,19}$"))
    rows = rows.select(
        "brokerName",
        F.col("storeTimestamp").alias("at"),
        texts.alias("texts"),
        _property(OUTCOMES).alias("letters"),
        F.split(_property(CHECKS), ",").alias("checked"),
    )
    rows = rows.select("brokerName", "at", "letters", "checked", F.size("texts").alias("count"), F.posexplode("texts"))
    letter = F.when(F.length("letters") == F.col("count"), F.substring(F.col("letters"), F.col("pos") + 1, F.lit(1)))
    checks = F.when(F.size("checked") == F.col("count"), F.get("checked", F.col("pos")).try_cast("int"))
    rows = rows.select(
        "brokerName", F.trim("col").cast("bigint").alias("halfOffset"), "at", letter.alias("letter"), checks.alias("n")
    )
    first = F.min(F.struct("at", "letter", "n"))
    rows = rows.groupBy("brokerName", "halfOffset").agg(first.alias("first"))
    return rows.select(
        "brokerName",
        "halfOffset",
        F.col("first.at").alias("opAt"),
        F.col("first.letter").alias("letter"),
        F.col("first.n").alias("opChecks"),
    )


_FINAL_COLUMNS: Final = {"finalAt": "timestamp", "queueId": "int", "queueOffset": "bigint"}


def _finals(spark: SparkSession, options: TransactionOptions, topics: list[str]) -> DataFrame | None:
    """Return the delivered messages of transactions, by the place of their half record; None without a topic."""
    from pyspark.sql import functions as F  # noqa: N812

    if not topics:
        return None
    schema = (
        "brokerName string, queueId int, queueOffset bigint, storeTimestamp timestamp, "
        "preparedTransactionOffset bigint, sysFlag int"
    )
    rows = _read(spark, options, ",".join(topics), schema)
    is_final = (F.col("sysFlag").bitwiseAND(SysFlag.TRANSACTION_MASK)) == int(SysFlag.TRANSACTION_COMMIT)
    rows = rows.where(is_final & (F.col("preparedTransactionOffset") > -1))
    first = F.min(F.struct(F.col("storeTimestamp"), F.col("queueId"), F.col("queueOffset")))
    rows = rows.groupBy("brokerName", F.col("preparedTransactionOffset").alias("commitLogOffset"))
    return rows.agg(first.alias("first")).select(
        "brokerName",
        "commitLogOffset",
        F.col("first.storeTimestamp").alias("finalAt"),
        F.col("first.queueId").alias("queueId"),
        F.col("first.queueOffset").alias("queueOffset"),
    )


def _given_up(spark: SparkSession, options: TransactionOptions) -> DataFrame:
    """Return the given-up transactions, with the number of their checks."""
    from pyspark.sql import functions as F  # noqa: N812

    schema = "brokerName string, msgId string, storeTimestamp timestamp, properties map<string,string>"
    rows = _read(spark, options, GIVEN_UP_TOPIC, schema)
    group = _property(PropertyName.PGROUP).alias("producerGroup")
    checks = _property(PropertyName.TRANSACTION_CHECK_TIMES).cast("int")
    by = rows.groupBy("brokerName", F.col("msgId").alias("transactionId"), group)
    return by.agg(F.max("storeTimestamp").alias("givenUp"), F.max(checks).alias("lastChecks"))


def _one_row_each(copies: DataFrame) -> DataFrame:
    """Join the copies of each half message into one row."""
    from pyspark.sql import functions as F  # noqa: N812

    return copies.groupBy("brokerName", "firstOffset").agg(
        F.min("born").alias("born"),
        F.min("stored").alias("prepared"),
        *(F.first(name, ignorenulls=True).alias(name) for name in ("transactionId", "keys", "producerGroup", "topic")),
        F.max("checks").alias("checks"),
        F.max("opChecks").alias("opChecks"),
        F.max(F.when(F.col("letter").isin(*_LETTERS), F.col("letter"))).alias("letter"),
        (F.count("opAt") == F.count(F.lit(1))).alias("isSettled"),
        F.max("opAt").alias("opAt"),
        F.min("finalAt").alias("finalAt"),
        F.min("queueId").alias("queueId"),
        F.min("queueOffset").alias("queueOffset"),
    )


def _judged(found: DataFrame) -> DataFrame:
    """Add outcome and time, with columns in the order that users see."""
    from pyspark.sql import functions as F  # noqa: N812

    outcome = F.when(F.col("finalAt").isNotNull(), COMMITTED)
    for letter, name in _LETTERS.items():
        outcome = outcome.when(F.col("letter") == letter, name)
    outcome = outcome.when(~F.col("isSettled"), PENDING).when(F.col("givenUp").isNotNull(), GIVEN_UP)
    settled = F.when(F.col("outcome") != PENDING, F.coalesce("finalAt", "opAt"))
    counts = [F.coalesce(name, F.lit(0)) for name in ("checks", "lastChecks", "opChecks")]
    checks = F.when(F.col("outcome") == PENDING, F.col("checks")).otherwise(F.greatest(*counts))
    return (
        found.withColumn("outcome", outcome.otherwise(ROLLED_BACK))
        .withColumn("settled", settled)
        .withColumn("latencyMs", F.expr("unix_millis(settled) - unix_millis(prepared)"))
        .select(
            *("transactionId", "producerGroup", "topic", "keys", "brokerName"),
            F.col("firstOffset").alias("halfOffset"),
            *("born", "prepared"),
            checks.alias("checks"),
            *("outcome", "settled", "latencyMs", "queueId", "queueOffset"),
            F.to_date("prepared").alias("day"),
        )
    )


def write_table(rows: DataFrame, path: str) -> None:
    """Write the table as Parquet, a folder for each day. The rows' days are replaced, other days stay."""
    rows.repartition(1, "day").write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(
        "day"
    ).parquet(path)


def _property(name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col("properties")[name]


def check_state_stores(cluster: Cluster) -> None:
    """Refuse brokers that have half messages but keep no op records.

    :raises OutcomesUnknown: there is such a broker.
    """
    for name in sorted({queue.broker_name for queue in cluster.queues(HALF_TOPIC) or ()}):
        store = cluster.settings(name, HALF_TOPIC).get(STATE_STORE, QUEUE)
        if store != QUEUE:
            raise OutcomesUnknown(
                f"{name} keeps its pending transactions in a {store} ({STATE_STORE}={store}). No topic says whether "
                f"a transaction that was not committed is pending or was rolled back: ask the broker with "
                f"'rocketmq-gateway transactions list'"
            )


def _existing(options: TransactionOptions, topics: list[str]) -> list[str]:
    """Return the topics that a broker has.

    The topic of given-up transactions may be missing, if there was never one.
    """
    with _cluster(options) as cluster:
        return [topic for topic in topics if cluster.queues(topic) is not None]


@contextmanager
def _cluster(options: TransactionOptions) -> Iterator[Cluster]:
    from gateway.spark.asking.cluster import Cluster
    from gateway.spark.options import read_options

    given: dict[str, Any] = {**options.source, "subscribe": HALF_TOPIC, "allowSystemTopics": "true"}
    cluster = Cluster(read_options(given, is_stream=False).access)
    try:
        yield cluster
    finally:
        cluster.close()
