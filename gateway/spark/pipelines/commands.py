"""The pipelines as commands; ``rocketmq-gateway pipeline`` is the same group.

This module loads little, because ``rocketmq-gateway --help`` loads the module too.

Exit codes: 0 done; 1 it failed; 2 the command is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from gateway.spark.errors import OptionRefused, SparkSourceError
from gateway.spark.pipelines.archive import BORN, MAX_FILE_ROWS, MAX_OFFSETS, STORED, ArchiveOptions, start_archive
from gateway.spark.pipelines.decoding import AVRO, BYTES, FORMATS
from gateway.spark.pipelines.progress import StreamProgress
from gateway.spark.pipelines.replay import ReplayOptions, replay
from gateway.spark.pipelines.session import pipeline_session
from wire.safe_text import safe_lines

DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"
_WRONG: Final = 2
_MOST_ERROR_LINES: Final = 3


class Moment(click.ParamType[datetime]):
    """A time: ``2026-05-01`` or ``2026-05-01T12:00:00Z``, in UTC if no zone is given."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time with a zone."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time like 2026-05-01 or 2026-05-01T12:00:00Z", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class _Connection(NamedTuple):
    """The name servers of a pipeline, further options, and Spark's master."""

    nameserver: str
    more: tuple[str, ...]
    master: str

    def options(self, **own: str) -> dict[str, str]:
        """Return the options of a source or sink.

        :raises OptionRefused: a value of ``-o`` is not NAME=VALUE.
        """
        return {"nameServer": self.nameserver, **own, **_pairs(self.more)}


def _connected(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every pipeline has; the command gets them as the parameter ``connection``."""

    @wraps(inner)
    def command(nameserver: str, more: tuple[str, ...], master: str, **own: Any) -> None:
        inner(connection=_Connection(nameserver, more, master), **own)

    for option in (
        click.option("--master", default="local[*]", show_default=True, help="Spark's master; spark-submit's wins."),
        click.option(
            "-o",
            "--option",
            "more",
            multiple=True,
            metavar="NAME=VALUE",
            help="A further option of the source or the sink, e.g. -o accessKey=me; may be repeated.",
        ),
        click.option(
            "-n",
            "--nameserver",
            metavar="ADDR",
            envvar="NAMESRV_ADDR",
            default=DEFAULT_NAME_SERVER,
            show_default=True,
            help="Name servers: host:port, several separated by ';'.",
        ),
    ):
        command = option(command)
    return command


@click.group(
    epilog="""\b
Examples:
  rocketmq-gateway pipeline archive orders --to /data/archive
  rocketmq-gateway pipeline transactions --table /data/transactions --report report.html
  rocketmq-gateway pipeline replay /data/archive --from 2026-05-01T12:00Z --until 2026-05-01T13:00Z --topic orders-again

\b
On a cluster: spark-submit --master spark://host:7077 $(rocketmq-gateway pipeline script) archive orders --to s3a://…
"""
)
def pipeline() -> None:
    """Archive queues, report on transactions, send an archive again: on Spark."""


@pipeline.command(
    epilog="""\b
Examples:
  rocketmq-gateway pipeline archive orders --to /data/archive
      all there is and was not archived before, then end: for a timer
  rocketmq-gateway pipeline archive --pattern 'orders.*' --to /data/archive --every 60
      until Ctrl-C, a batch a minute
  rocketmq-gateway pipeline archive orders --to /data/orders --format json --schema 'id bigint, total double'
      values in the column value; a body that is no such JSON stays in unreadBody
"""
)
@click.argument("topics", nargs=-1)
@click.option("--to", "path", required=True, metavar="DIR", help="Directory of the archive.")
@click.option("--pattern", metavar="REGEX", help="Topics by a regular expression, those that come later included.")
@click.option("--checkpoint", metavar="DIR", help="Of the stream (default: _checkpoint in the archive).")
@click.option("--format", "body_format", type=click.Choice(FORMATS), default=BYTES, show_default=True)
@click.option("--schema", metavar="DDL|FILE", help="What bodies hold: Spark's DDL; for avro a file with its JSON.")
@click.option("--keep-body", is_flag=True, help="Keep the bytes beside the values: needed to replay.")
@click.option("--fail-on-unread", "fails_on_unread", is_flag=True, help="A body that is none of this is an error.")
@click.option(
    "--columns",
    metavar="A,B,…",
    callback=lambda _context, _option, text: tuple(name.strip() for name in text.split(",")) if text else (),
    help="Of the source's columns, only these (and topic, body, queueId).",
)
@click.option(
    "--date-of", type=click.Choice([STORED, BORN]), default=STORED, show_default=True, help="What eventDate is."
)
@click.option("--files", type=click.IntRange(1, 1000), default=1, show_default=True, help="Per batch, date and topic.")
@click.option("--max-offsets", type=click.IntRange(1), default=MAX_OFFSETS, show_default=True, help="Of a batch.")
@click.option("--max-file-rows", type=click.IntRange(1), default=MAX_FILE_ROWS, show_default=True)
@click.option(
    "--every", "every_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Do not end; batches so far apart."
)
@_connected
def archive(
    topics: tuple[str, ...],
    pattern: str | None,
    body_format: str,
    schema: str | None,
    connection: _Connection,
    **given: Any,
) -> None:
    """Write committed messages of TOPICS to Parquet, partitioned by eventDate and topic, each exactly once."""
    if bool(topics) == bool(pattern):
        raise click.UsageError("give topics or --pattern")
    what = {"subscribe": ",".join(topics)} if topics else {"subscribePattern": str(pattern)}
    with _errors():
        options = ArchiveOptions(
            source=connection.options(**what),
            body_format=body_format,
            schema=Path(schema).read_text() if body_format == AVRO and schema is not None else schema,
            **given,
        )
        with pipeline_session("archive", master=connection.master) as spark:
            progress = StreamProgress(sys.stderr, time.monotonic)
            query = start_archive(spark, options)
            try:
                progress.follow(query)
            except KeyboardInterrupt:
                query.stop()
            click.echo(f"{progress.rows:,} messages archived to {options.path}")


@pipeline.command(
    epilog="""\b
Examples:
  rocketmq-gateway pipeline transactions --report today.html
  rocketmq-gateway pipeline transactions --day 2026-05-01 --table /data/transactions --report 2026-05-01.html
  rocketmq-gateway pipeline transactions --day 2026-04-01 --until 2026-04-30 --table /data/transactions

\b
The table has a folder for each day, written again by each run for the day. Outcomes up to four days later count.
"""
)
@click.option("--day", type=Moment(), metavar="DATE", help="Of the half messages, in UTC (default: today).")
@click.option("--until", type=Moment(), metavar="DATE", help="The last day (default: the same).")
@click.option("--table", metavar="DIR", help="Write one row for each transaction here, as Parquet.")
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here, as HTML.")
@_connected
def transactions(
    day: datetime | None, until: datetime | None, table: str | None, report: Path | None, connection: _Connection
) -> None:
    """Put together the life of every transaction: a table, and a report with plots."""
    if table is None and report is None:
        raise click.UsageError("give --table, --report or both")
    from gateway.spark.pipelines.transactions import TransactionOptions, lives, write_table

    now = datetime.now(UTC)
    first = (day or now).date()
    with _errors():
        options = TransactionOptions(
            source=connection.options(), first_day=first, last_day=(until or day or now).date()
        )
        with pipeline_session("transactions", master=connection.master) as spark:
            from gateway.spark.pipelines.report import figures, page

            rows = lives(spark, options).cache()
            if table is not None:
                write_table(rows, table)
            found = figures(rows)
            if report is not None:
                days = f"{options.first_day}" + (f" to {options.last_day}" if options.last_day != first else "")
                report.write_text(page(found, title=f"Transactions of {days}", made_at=now))
            said = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(found.counts.items()))
            click.echo(f"{found.total:,} transactions" + (f": {said}" if said else ""))
            for name in (table, report):
                if name is not None:
                    click.echo(f"  {name}")


@pipeline.command(name="replay")
@click.argument("archive_path", metavar="DIR")
@click.option("--topic", metavar="NAME", help="Send to this topic (default: where each message came from).")
@click.option("--from-topic", metavar="NAME", help="Of the archive's topics, only this one.")
@click.option("--from", "begin", type=Moment(), help="Stored at this time or later.")
@click.option("--until", "end", type=Moment(), help="Stored before this time.")
@click.option("--keep-queues", is_flag=True, help="To the queue of the same number, in its order.")
@_connected
def replay_command(archive_path: str, topic: str | None, connection: _Connection, **given: Any) -> None:
    """Send messages of the archive DIR again, at least once."""
    with _errors():
        sink = connection.options(**({"topic": topic} if topic else {}))
        with pipeline_session("replay", master=connection.master) as spark:
            count = replay(spark, ReplayOptions(path=archive_path, sink=sink, **given))
            click.echo(f"{count:,} messages sent")


@pipeline.command()
def script() -> None:
    """Print the path of the program for spark-submit."""
    click.echo(Path(__file__).with_name("__main__.py"))


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Return ``NAME=VALUE`` texts as options.

    :raises OptionRefused: a text does not have this form.
    """
    for text in given:
        if "=" not in text:
            raise OptionRefused(f"-o takes NAME=VALUE, not {text!r}")
    return dict(text.split("=", 1) for text in given)


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors that the user can fix into a line and an exit code, without a page of Java."""
    from gateway.client.errors import ConfigurationError, RocketMQError

    try:
        yield
    except (SparkSourceError, RocketMQError, OSError) as error:
        is_users = isinstance(error, OptionRefused | ConfigurationError)
        click.echo(safe_lines(f"Error: {error}"), err=True)
        raise SystemExit(_WRONG if is_users else 1) from error
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        click.echo(safe_lines(f"Error: {_cause(str(error))}"), err=True)
        raise SystemExit(1) from error


def _cause(text: str) -> str:
    """Return the point of a Spark error: the last line of a worker's stack trace, otherwise the first lines."""
    lines = [line for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith(("gateway.", "pyspark.errors"))]
    return raised[-1] if raised else "\n".join(lines[:_MOST_ERROR_LINES])
