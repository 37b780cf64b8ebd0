"""``rocketmq-gateway tail``: messages of a topic as lines of JSON, without becoming a consumer of the topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
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
from gateway.cli.clients.message_filter import Conditions, filter_options
from gateway.cli.options import gathered
from gateway.cli.output import say

if TYPE_CHECKING:
    from gateway.client import AdminClient, LitePullConsumer, MessageQueue, ReceivedMessage

BATCH = 32
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class QueueSpan:
    """The offsets to read of a queue: from ``start`` to before ``end``, or beyond ``end`` while following."""

    start: int
    end: int


class _Start(NamedTuple):
    """The place where reading begins: ``last`` messages before the end of each queue, or at ``begin``."""

    begin: str | datetime
    last: int | None


class _Printing(NamedTuple):
    """The limits of printing: at most ``most`` lines, and whether properties of the protocol are printed."""

    most: int | None
    all_properties: bool


@click.command(
    epilog="""\b
Examples:
  rocketmq-gateway tail orders
      every message from now on, until Ctrl-C
  rocketmq-gateway tail orders --last 10 --no-follow
      the last ten of each queue
  rocketmq-gateway tail orders --from 1h --no-follow --tag paid --grep '"total": 0' > found.jsonl
      what came in the last hour, filtered; a progress bar on the terminal
  rocketmq-gateway tail '%DLQ%billing' --from earliest --no-follow
      what a group has given up

\b
Nothing is committed, and no group gets fewer messages by it. Queues are read side by side: the order is that of each
queue. Tags and the other conditions are looked at here, after the messages came.
"""
)
@click.argument("topic")
@click.option("--from", "begin", type=Begin(), default=LATEST, metavar="WHERE", help="earliest, latest, 10m, a time.")
@click.option("--last", type=click.IntRange(1), metavar="N", help="Begin N messages before the end of each queue.")
@click.option("--no-follow", is_flag=True, help="Stop at what is the end now.")
@click.option("--count", "most", type=click.IntRange(1), metavar="N", help="Stop after N lines.")
@click.option("--all-properties", is_flag=True, help="Those of the protocol, too.")
@filter_options
@name_servers_option
@gathered("start", _Start)
@gathered("printing", _Printing)
def tail(
    topic: str,
    start: _Start,
    no_follow: bool,
    printing: _Printing,
    conditions: Conditions,
    servers: Servers,
) -> None:
    """Print messages of TOPIC as they come, or those that are there."""
    from gateway.client import AdminClient, ClientSettings, LitePullConsumer, LitePullSettings
    from gateway.client.admin.admin_messages import TOOLS_GROUP

    wanted = conditions.filter()
    with client_errors():
        settings = servers.settings(LitePullSettings, auto_commit=False, pull_batch_size=BATCH)
        with AdminClient(servers.settings(ClientSettings)) as admin:
            spans = _spans(admin, topic, start)
        with LitePullConsumer(TOOLS_GROUP, settings) as consumer:
            _seek(consumer, spans)
            progress = LiveRate(
                time.monotonic, sys.stderr, "messages read", total=_messages_of(spans) if no_follow else None
            )
            messages = _counted(_messages(consumer, spans, no_follow), progress)
            with suppress(KeyboardInterrupt):  # how following ends
                _print(islice(filter(wanted.takes, messages), printing.most), printing.all_properties)
            if shows_progress():
                progress.end()


def _spans(admin: AdminClient, topic: str, wanted: _Start) -> dict[MessageQueue, QueueSpan]:
    spans = {}
    for queue, holds in admin.topics.stats(topic).items():
        if wanted.last is not None:
            start = max(holds.min_offset, holds.max_offset - wanted.last)
        elif isinstance(wanted.begin, datetime):
            start = max(holds.min_offset, min(admin.offsets.at(queue, wanted.begin), holds.max_offset))
        else:
            start = holds.min_offset if wanted.begin == EARLIEST else holds.max_offset
        spans[queue] = QueueSpan(start, holds.max_offset)
    return spans


def _messages_of(spans: Mapping[MessageQueue, QueueSpan]) -> int:
    """Return how many messages will be read without following."""
    return sum(span.end - span.start for span in spans.values())


def _seek(consumer: LitePullConsumer, spans: Mapping[MessageQueue, QueueSpan]) -> None:
    """Set a consumer to the starts of the spans."""
    consumer.assign(spans)
    for queue, span in spans.items():
        consumer.seek(queue, span.start)


def _messages(
    consumer: LitePullConsumer, spans: Mapping[MessageQueue, QueueSpan], stops: bool
) -> Iterator[ReceivedMessage]:
    """Yield the messages of all queues, up to the ends of the spans if ``stops``.

    Offsets without a message are reported, because the offsets of a queue have no gaps.
    """
    expected = {queue: span.start for queue, span in spans.items()}
    left = {queue for queue, span in spans.items() if span.start < span.end}
    while left or not stops:
        for message in consumer.poll(POLL_S):
            queue, offset = message.queue, message.queue_offset
            if offset != expected[queue]:
                say(_jump_text(queue, expected[queue], offset), err=True)
            expected[queue] = offset + 1
            if stops and message.queue_offset >= spans[queue].end:
                left.discard(queue)
                continue
            yield message
            if message.queue_offset == spans[queue].end - 1:
                left.discard(queue)


def _jump_text(queue: MessageQueue, expected: int, offset: int) -> str:
    """Return an explanation why a queue does not continue at the expected offset."""
    if offset < expected:
        return f"{queue}: goes on at {offset} instead of {expected}: the topic was deleted and made again"
    return f"{queue}: messages {expected} to {offset - 1} are gone: deleted before they were read"


def _counted(messages: Iterable[ReceivedMessage], progress: LiveRate) -> Iterator[ReceivedMessage]:
    """Yield the same messages, each counted as read when the next one is requested."""
    for message in messages:
        yield message
        if shows_progress():
            progress.add()


def _print(messages: Iterable[ReceivedMessage], all_properties: bool) -> None:
    from gateway.cli.clients.json_messages import message_line

    for message in messages:
        say(message_line(message, all_properties=all_properties))
