"""A sink whose driver dies at a chosen point of its commit: the source ``rocketmq`` under another name.

Spark commits a batch in a Python process, a descendant of the driver's Java. What kills is this process: first Java,
then itself, so that nothing of what comes after the point is done.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NoReturn
from unittest.mock import patch

import psutil
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from gateway.spark.asking.cluster import Cluster
from gateway.spark.options import WriteOptions, write_options
from gateway.spark.source import RocketMQDataSource
from gateway.spark.writing import writer
from gateway.spark.writing.decisions import FOLDER, Halves
from gateway.spark.writing.outcomes import tell_outcomes
from gateway.spark.writing.writer import Sent, StreamWriter

FORMAT: Final = "rocketmq-dying"
_ORDER: Final = "die"
"""In the checkpoint: when to die."""


class Point(Enum):
    """The point at which the driver dies in the commit of a transactional batch."""

    STORED = "when all half messages are stored"
    DECIDING = "while its decision is written"
    DECIDED = "when its decision is written"
    TELLING = "when one half message of each queue's broker is committed"
    TOLD = "when all half messages are committed"


def die_at(checkpoint: Path, batch: int, point: Point) -> None:
    """Have the driver die in a batch, once."""
    (checkpoint / _ORDER).write_text(json.dumps([batch, point.name]))


def is_planned(checkpoint: Path) -> bool:
    """Return whether the sink will die, and has not died yet."""
    return (checkpoint / _ORDER).exists()


def live(checkpoint: Path) -> None:
    """Take that back, if it has not happened."""
    (checkpoint / _ORDER).unlink(missing_ok=True)


class DyingSource(RocketMQDataSource):
    """A source that is registered only because of its sink."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Return the sink for ``df.writeStream``."""
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        return DyingWriter(write_options(self.options), fields)


class DyingWriter(StreamWriter):
    """Dies when its checkpoint says so."""

    def commit(self, messages: list[WriterCommitMessage | None], *batch: int) -> None:
        """All tasks are done."""
        (batch_id,) = batch
        assert self._options.checkpoint is not None, "it is for transactional streams"
        checkpoint = Path(self._options.checkpoint)
        point = _point(checkpoint, batch_id)
        if point is Point.STORED:
            _die()
        if point is Point.DECIDING:
            _decide_half(checkpoint, messages, batch_id)
        if point in (Point.DECIDED, Point.TELLING):
            with patch.object(writer, "tell_outcomes", _TellSome(0 if point is Point.DECIDED else 1)):
                super().commit(messages, batch_id)
        super().commit(messages, batch_id)
        if point is Point.TOLD:
            _die()


class _TellSome:
    """Tells brokers of a few half messages for each topic, and dies."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, cluster: Cluster, options: WriteOptions, halves: Halves, **given: Any) -> None:
        some = Halves()
        for broker, topic in halves.packed:
            for half in list(halves.of(broker, topic))[: self._count]:
                some.add(broker, topic, half)
        tell_outcomes(cluster, options, some, **given)
        _die()


def _decide_half(checkpoint: Path, messages: Sequence[WriterCommitMessage | None], batch: int) -> NoReturn:
    """The file as it is before it gets its name: a part of it is written."""
    query = next(message.query for message in messages if isinstance(message, Sent))
    folder = checkpoint / FOLDER / query
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{batch}.new").write_bytes(b"\x92\x01")
    _die()


def _point(checkpoint: Path, batch: int) -> Point | None:
    path = checkpoint / _ORDER
    if not path.exists():
        return None
    ordered, name = json.loads(path.read_text())
    if ordered != batch:
        return None
    path.unlink()
    return Point[name]


def _die() -> NoReturn:
    java = next(each for each in psutil.Process().parents() if each.name() == "java")
    java.kill()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead")
