"""``rocketmq-gateway produce``: lines of a file or of standard input become messages."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from gateway.cli.clients.client_options import Servers, client_errors, name_servers_option
from gateway.cli.clients.live_rate import LiveRate
from gateway.cli.clients.message_filter import property_pair
from gateway.cli.options import gathered
from gateway.cli.output import RepeatedErrors, say, say_json
from gateway.client.blocking.waiting import pause

if TYPE_CHECKING:
    from gateway.client import Message, Producer, RocketMQError, SendResult

DEFAULT_GROUP = "rocketmq-gateway-produce"
IN_FLIGHT = 1_000
FORMATS = ("json", "text")


class _Source(NamedTuple):
    """The source of the lines, their format, and how many are taken per second."""

    file: Path | None
    form: str
    rate: float | None


class _Additions(NamedTuple):
    """Options that add to each message, not yet parsed."""

    tag: str | None
    keys: tuple[str, ...]
    properties: tuple[str, ...]


@click.command(
    epilog="""\b
Examples:
  echo '{"body": "hello", "tags": "greeting", "keys": ["7"]}' | rocketmq-gateway produce orders
  rocketmq-gateway produce orders --file orders.jsonl --quiet
      what "tail" and "consume" have printed; a progress bar on the terminal
  journalctl -f | rocketmq-gateway produce logs --format text --property host=web1
      each line is a body

\b
JSON: an object a line, with body or body_base64, and tags, keys, properties, sharding_key, delay_level, delay. A body
that is an object itself is sent as its JSON. Standard output gets one line for each message, in their order: msg_id,
broker, queue, offset. A line that fails is reported with its number, and the others are sent; the exit code is 1 then.
Many lines that fail in the same way are one summary.
"""
)
@click.argument("topic")
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Instead of stdin.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="json", show_default=True, help="Of a line.")
@click.option("--group", default=DEFAULT_GROUP, show_default=True, metavar="NAME", help="The producer group.")
@click.option("--tag", metavar="TAG", help="Of messages whose line has none.")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Of messages whose line has none.")
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="Added to each message.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="At most N messages a second.")
@click.option("--quiet", is_flag=True, help="Do not print what was sent.")
@name_servers_option
@gathered("source", _Source)
@gathered("additions", _Additions)
def produce(
    topic: str,
    source: _Source,
    group: str,
    additions: _Additions,
    quiet: bool,
    servers: Servers,
) -> None:
    """Send a message to TOPIC for each line."""
    from gateway.client import Producer, ProducerSettings
    from gateway.client.names import check_topic

    file = source.file
    more = _More(additions.tag or "", additions.keys, dict(map(property_pair, additions.properties)))
    total = _lines_of(file) if file is not None and sys.stderr.isatty() else None
    progress = LiveRate(time.monotonic, sys.stderr, "messages sent", total=total)
    with client_errors(), _opened(file) as lines:
        check_topic(topic)
        settings = servers.settings(ProducerSettings)
        with Producer(group, settings) as producer:
            sending = _Sending(producer, progress, quiet=quiet)
            is_whole = False
            with suppress(KeyboardInterrupt):  # what was read is sent and told all the same
                for number, text in _paced(_numbered(lines), source.rate):
                    sending.send(number, text, topic, source.form, more)
                is_whole = True
            sending.finish()
    if sys.stderr.isatty():
        progress.end()
    if not is_whole:
        say(f"Error: interrupted after {sending.count} messages", err=True)
    if sending.failures:
        say(f"Error: {sending.failures} of {sending.count} messages were not sent", err=True)
    if sending.failures or not is_whole:
        click.get_current_context().exit(1)


@dataclass(frozen=True, slots=True)
class _More:
    """Tag, keys and properties that options add to each message."""

    tag: str
    keys: tuple[str, ...]
    properties: dict[str, str]

    def message(self, text: bytes, topic: str, form: str) -> Message:
        """Return the message of a line.

        :raises MessageRefused: the line does not describe an allowed message.
        """
        from gateway.cli.clients.json_messages import message_of_line
        from gateway.client import Message, MessageRefused

        if form == "text":
            return Message(topic, text, tags=self.tag, keys=self.keys, properties=self.properties)
        try:
            message = message_of_line(text.decode(), topic)
        except UnicodeDecodeError as error:
            raise MessageRefused("line", "is not UTF-8") from error
        return Message(
            topic,
            message.body,
            tags=message.tags or self.tag,
            keys=message.keys or self.keys,
            properties={**message.properties, **self.properties},
            sharding_key=message.sharding_key,
            delay_level=message.delay_level,
            delay=message.delay,
        )


class _Sending:
    """A sender with many messages on their way, which prints results in the order of the lines."""

    def __init__(self, producer: Producer, progress: LiveRate, *, quiet: bool) -> None:
        self._producer = producer
        self._progress = progress
        self._quiet = quiet
        self._under_way: deque[tuple[int, Future[SendResult]]] = deque()
        self.count = 0
        self.failures = 0
        self.errors = RepeatedErrors("line")

    def send(self, number: int, text: bytes, topic: str, form: str, more: _More) -> None:
        """Send one line; wait if too many messages are on their way."""
        from gateway.client import MessageRefused

        self.count += 1
        try:
            self._under_way.append((number, self._producer.send_async(more.message(text, topic, form))))
        except MessageRefused as error:
            self._fail(number, error)
        while self._under_way and (len(self._under_way) >= IN_FLIGHT or self._under_way[0][1].done()):
            self._settle()

    def finish(self) -> None:
        """Wait for the messages on their way, and print the summaries of errors."""
        while self._under_way:
            self._settle()
        self.errors.end()

    def _settle(self) -> None:
        from gateway.client import RocketMQError

        number, future = self._under_way[0]
        try:
            result = future.result()
        except RocketMQError as error:
            self._under_way.popleft()
            self._fail(number, error)
            return
        self._under_way.popleft()
        if sys.stderr.isatty():
            self._progress.add()
        if not self._quiet:
            place = {"broker": result.queue.broker_name, "queue": result.queue.queue_id, "offset": result.queue_offset}
            say_json({"msg_id": result.msg_id, **place})

    def _fail(self, number: int, error: RocketMQError) -> None:
        self.failures += 1
        kind = type(error), getattr(error, "code", None)
        self.errors.tell(kind, number, f"line {number}: {error}")


def _opened(file: Path | None) -> BinaryIO:
    if file is None:
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise click.BadParameter(f"cannot read {file}: {error.strerror}", param_hint="--file") from error


def _lines_of(file: Path) -> int:
    """Return how many lines a file has, for the progress bar."""
    try:
        with file.open("rb") as lines:
            return sum(block.count(b"\n") for block in iter(partial(lines.read, 1 << 20), b""))
    except OSError:
        return 0  # opening it for reading tells


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, without their ends, each with its number in the file."""
    for number, line in enumerate(lines, start=1):
        text = line.rstrip(b"\r\n")
        if text:
            yield number, text


def _paced(lines: Iterable[tuple[int, bytes]], rate: float | None) -> Iterator[tuple[int, bytes]]:
    """Yield the same lines, at most ``rate`` per second; None sets no limit."""
    begun = time.monotonic()
    for count, line in enumerate(lines, start=1):
        yield line
        if rate is not None:
            _wait_until(begun + count / rate)


def _wait_until(due: float) -> None:
    pause(max(due - time.monotonic(), 0.0))
