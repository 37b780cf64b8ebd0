"""``rocketmq-gateway pipeline``: the Spark pipelines, if the package ``rocketmq-gateway[spark]`` is installed.

``answer-checks`` is added here: the producer that brokers ask about half messages of Spark's sink.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from gateway.cli.clients.client_options import Servers, client_errors, name_servers_option
from gateway.cli.output import say
from gateway.client.blocking.waiting import pause
from gateway.spark.pipelines.commands import pipeline

if TYPE_CHECKING:
    from gateway.client import ReceivedMessage, TransactionState
    from gateway.spark.writing.decisions import Decisions

DEFAULT_GROUP = "spark-rocketmq-producer"


@pipeline.command(name="answer-checks")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option("--group", default=DEFAULT_GROUP, show_default=True, help="The sink's producerGroup.")
@click.option("--topic", "topics", multiple=True, help="A topic the sink writes to; may be repeated.")
@click.option("--seconds", type=click.FloatRange(min=0), help="End after so long (default: Ctrl-C).")
@name_servers_option
def answer_checks(
    checkpoint: str, group: str, topics: tuple[str, ...], seconds: float | None, servers: Servers
) -> None:
    """Answer for half messages of a sink with deliveryMode=transactional, from the decisions in its CHECKPOINT.

    Half messages of tasks and tries that do not count are rolled back, and half messages that count are committed.
    Without this command such half messages wait, which only makes the list of pending transactions longer.
    """
    from gateway.client import TransactionProducer, TransactionSettings
    from gateway.spark.writing.decisions import Decisions

    checker = DecisionChecker(Decisions(checkpoint))
    with (
        client_errors(),
        TransactionProducer(group, checker, servers.settings(TransactionSettings), topics=topics),
        suppress(KeyboardInterrupt),
    ):
        pause(seconds)
    say(", ".join(f"{count} {name}" for name, count in sorted(checker.counts.items())) or "nothing was asked")


class DecisionChecker:
    """A checker that answers from decisions; ``counts`` has the number of each answer."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self.counts: dict[str, int] = {}

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Return the decision about a half message; UNKNOWN if the sink did not send the message."""
        from gateway.client import TransactionState
        from gateway.spark.writing.decisions import Verdict
        from wire.message.properties import PropertyName

        properties = message.record.property_map
        query, batch = properties.get("SPARK_QUERY"), properties.get("SPARK_BATCH", "")
        verdict = Verdict.UNKNOWN
        if query is not None and batch.isdecimal():
            first = properties.get(PropertyName.TRAN_PREPARED_QUEUE_OFFSET, "")
            half_offset = int(first) if first.isdecimal() else message.queue_offset
            verdict = self._decisions.verdict(query, int(batch), message.queue.broker_name, half_offset)
        self.counts[verdict.value] = self.counts.get(verdict.value, 0) + 1
        return TransactionState[verdict.name]
