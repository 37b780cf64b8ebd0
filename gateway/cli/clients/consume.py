"""``rocketmq-gateway consume``: messages as lines of JSON, as a member of a consumer group."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from gateway.cli.clients.client_options import (
    EARLIEST,
    LATEST,
    Begin,
    Servers,
    client_errors,
    name_servers_option,
    shows_progress,
)
from gateway.cli.clients.live_rate import LiveRate
from gateway.cli.clients.message_filter import Conditions, MessageConditions, filter_options
from gateway.cli.options import gathered
from gateway.cli.output import say

if TYPE_CHECKING:
    from gateway.client import ConsumeFrom, LitePullConsumer, MessageQueue

BATCH = 32
POLL_S = 0.5
COMMIT_INTERVAL_S = 1.0


class _Joining(NamedTuple):
    """The group to join, and where a new group begins."""

    group: str
    begin: str | datetime


class _Printing(NamedTuple):
    """The end of printing, and the printed parts of a message.

    Printing ends after ``most`` lines, or after ``idle`` seconds without a message.
    """

    most: int | None
    idle: float | None
    all_properties: bool


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway consume orders --group audit
      what comes, shared with the other members of the group, until Ctrl-C
  rocketmq-gateway consume orders --group audit --from earliest --idle 5 > orders.jsonl
      everything a new group can get, until nothing came for 5 s
  rocketmq-gateway consume orders --group vip --sql "region = 'EU' AND total > 100"
      the broker evaluates the expression (enablePropertyFilter=true)

\b
What was printed is committed: another run of the group goes on behind it. Tags are filtered by the broker; --key,
--property and --grep here, and what they leave out is consumed all the same.
"""
)
@click.argument("topic")
@click.option("--group", required=True, metavar="NAME", help="The consumer group to join.")
@click.option(
    "--from",
    "begin",
    type=Begin(),
    default=LATEST,
    metavar="WHERE",
    help="Where a new group begins: earliest, latest, 10m, a time.",
)
@click.option("--sql", metavar="EXPR", help="Only what this SQL92 expression holds for, instead of --tag.")
@click.option("--count", "most", type=click.IntRange(1), metavar="N", help="Stop after N lines.")
@click.option("--idle", type=click.FloatRange(0.1), metavar="SECONDS", help="Stop when nothing came for so long.")
@click.option("--all-properties", is_flag=True, help="Those of the protocol, too.")
@filter_options
@name_servers_option
@gathered("joining", _Joining)
@gathered("printing", _Printing)
def consume(
    topic: str,
    joining: _Joining,
    sql: str | None,
    printing: _Printing,
    conditions: Conditions,
    servers: Servers,
) -> None:
    """Print the messages of TOPIC that a consumer group gets."""
    if sql is not None and conditions.tag is not None:
        raise click.UsageError("--sql and --tag exclude each other")
    from gateway.client import LitePullConsumer, LitePullSettings, Sql

    begin = joining.begin
    wanted = conditions.filter(with_tags=False)
    with client_errors():
        settings = servers.settings(
            LitePullSettings,
            auto_commit=False,
            pull_batch_size=BATCH,
            consume_from_where=_consume_from(begin),
            consume_timestamp=begin if isinstance(begin, datetime) else None,
        )
        subscription = Sql(sql) if sql is not None else conditions.tag or "*"
        with LitePullConsumer(joining.group, settings, subscriptions={topic: subscription}) as consumer:
            reading = _Reading(consumer, wanted, printing)
            try:
                reading.run()
            except KeyboardInterrupt:  # how it ends without --count and --idle
                pass
            finally:
                reading.end()


class _Reading:
    """A loop that prints messages, and commits the printed ones."""

    def __init__(self, consumer: LitePullConsumer, wanted: MessageConditions, printing: _Printing) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._printing = printing
        self._consumed: dict[MessageQueue, int] = {}
        self._committed_at = time.monotonic()
        self._progress = LiveRate(time.monotonic, sys.stderr, "messages consumed")

    def run(self) -> None:
        """Print until there were enough lines, or until no message came for long enough."""
        from gateway.cli.clients.json_messages import message_line

        most, idle, all_properties = self._printing
        printed = 0
        heard_at = time.monotonic()
        while True:
            messages = self._consumer.poll(POLL_S if idle is None else min(POLL_S, idle))
            for message in messages:
                if self._wanted.takes(message):
                    say(message_line(message, all_properties=all_properties))
                    printed += 1
                self._consumed[message.queue] = message.queue_offset + 1
                if printed == most:
                    return
            now = time.monotonic()
            if messages:
                heard_at = now
                if shows_progress():
                    self._progress.add(len(messages))
            elif idle is not None and now - heard_at >= idle:
                return
            if now - self._committed_at >= COMMIT_INTERVAL_S:
                self._commit()

    def end(self) -> None:
        """Commit the rest of the consumed messages."""
        sys.stdout.flush()  # what a reader could not take is not consumed
        self._commit()
        if shows_progress():
            self._progress.end()

    def _commit(self) -> None:
        if self._consumed:
            self._consumer.commit(self._consumed)
            self._consumed = {}
        self._committed_at = time.monotonic()


def _consume_from(begin: str | datetime) -> ConsumeFrom:
    from gateway.client import ConsumeFrom

    if isinstance(begin, datetime):
        return ConsumeFrom.TIMESTAMP
    return ConsumeFrom.FIRST_OFFSET if begin == EARLIEST else ConsumeFrom.LAST_OFFSET
