"""What can go wrong in reading and writing with Spark.

    SparkSourceError
    ├── OptionRefused       an option, alone or with others, cannot work
    ├── SchemaRefused       a schema asks for what the table does not have
    ├── CheckpointRefused   a checkpoint is not one of ours, or of another version
    ├── DataLoss            messages that were to be read are not there any more
    ├── BodyUnreadable      a body is damaged or cannot be decompressed
    └── NotReady            what Spark or this machine lacks

Errors of the network and of servers are the client's (``gateway.client.errors``). Texts never hold secrets: they
reach the driver's log and Spark's web pages.
"""

from __future__ import annotations


class SparkSourceError(Exception):
    """Root of the errors of this package."""


class OptionRefused(SparkSourceError, ValueError):
    """An option, alone or with others, cannot work."""


class SchemaRefused(SparkSourceError, ValueError):
    """A schema asks for what the table does not have."""


class CheckpointRefused(SparkSourceError, ValueError):
    """A checkpoint is not one of ours, or of a version that this one does not know."""


class DataLoss(SparkSourceError):
    """Messages that were to be read are not there any more.

    :param queue: topic, broker and number, for people.
    :param first: the first offset missing; ``end`` the one after the last.
    :param reason: what happened, as far as can be told.
    """

    def __init__(self, queue: str, first: int, end: int, reason: str) -> None:
        super().__init__(queue, first, end, reason)
        self.queue = queue
        self.first = first
        self.end = end
        self.reason = reason

    @property
    def count(self) -> int:
        """How many offsets are missing."""
        return max(self.end - self.first, 0)

    def __str__(self) -> str:
        return (
            f"queue {self.queue}: offsets {self.first} to {self.end - 1} cannot be read: {self.reason}. Nothing was "
            f"skipped. To go on without them set failOnDataLoss=false, which warns of each range that is missing"
        )


class BodyUnreadable(SparkSourceError):
    """A body is damaged or cannot be decompressed."""

    def __init__(self, queue: str, queue_offset: int, reason: str) -> None:
        super().__init__(queue, queue_offset, reason)
        self.queue = queue
        self.queue_offset = queue_offset
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"queue {self.queue}, offset {self.queue_offset}: the body {self.reason}. mode=permissive gives null "
            f"instead, with the reason in the column bodyError when the schema names it"
        )


class NotReady(SparkSourceError, RuntimeError):
    """What Spark or this machine lacks."""
