"""The demonstration of the gateway, in about two minutes.

    make demo        or, with the package [spark] installed: python -m demo [--seconds 15] [--output DIR]

A gateway is started; transactional producers commit, roll back and forget orders, so that the broker has to ask what
became of them. They are the stock Java client's, in a container, where there is Docker, else Python's. Meanwhile Spark
streams what is committed into Parquet. In the end the archive is compared with what the producers did, and the life of
every transaction becomes a table and an HTML page.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
import webbrowser
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from demo.java_producers import JavaProducersMissingError
from demo.orders import Orders, Shop
from demo.producers import Choice, Producers, image_of, start_producers
from gateway.client import AdminClient
from gateway.client.testing.server import GatewayServer
from gateway.spark.pipelines.archive import ArchiveOptions, start_archive
from gateway.spark.pipelines.report import figures, page
from gateway.spark.pipelines.session import pipeline_session
from gateway.spark.pipelines.transactions import TransactionOptions, lives, write_table

TOPIC = "orders"
SCHEMA = "order_id string, customer string, total decimal(12,2)"
GROUPS = ("web-shop", "call-centre")
SETTINGS = {"transactionTimeOut": "3000", "transactionCheckInterval": "2000", "flushIntervalCommitLog": "50"}
PATIENCE_S = 60.0


def main() -> int:
    """Run it all; 0 when the archive is what it must be."""
    options = _options()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # so that what was started is ended then too
        if signal.getsignal(number) is not signal.SIG_IGN:  # ``nohup`` asks for that
            signal.signal(number, _interrupt)
    try:
        return _run(options)
    except JavaProducersMissingError as error:
        _say(f"no Java producers: {error}")
        return 1
    except KeyboardInterrupt:
        _say("stopped")
        return 130


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _run(options: argparse.Namespace) -> int:
    output: Path = options.output
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    image = image_of(options.producers, _say)
    begun = datetime.now(UTC)
    with GatewayServer(settings=SETTINGS) as server:
        _say(f"gateway: name server {server.nameserver}, broker {server.broker}; a check after 3 s without an outcome")
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.create(TOPIC, queues=4)
        _say("starting Spark …")
        with pipeline_session("demo") as spark:
            spark.conf.set("spark.sql.shuffle.partitions", "4")  # there is little to bring together
            _say(f"Spark {spark.version}: {TOPIC} streams into {output / 'archive'}")
            query = start_archive(spark, _archive(server.nameserver, output))
            orders = Orders()
            shop = Shop(server.nameserver, TOPIC, GROUPS, orders)
            with start_producers(options.producers, image, shop, _say) as producers:
                _trade(producers, orders, options.seconds)
            is_right = _compare(spark, query, orders, output)
            _report(spark, server.nameserver, begun, output)
    address = (output / "report.html").resolve().as_uri()
    _say(f"report: {address}")
    if options.open:
        webbrowser.open(address)
    _say(f"done in {(datetime.now(UTC) - begun).total_seconds():.0f} s")
    return 0 if is_right else 1


def _trade(producers: Producers, orders: Orders, seconds: float) -> None:
    """Place orders for a while, and wait until the broker has asked for every one that was forgotten."""
    _say(f"{len(GROUPS)} {producers.name} producers place orders for {seconds:g} s …")
    producers.trade(seconds)
    _say(orders.summary())
    _say("the broker asks what became of the forgotten ones …")
    _until(lambda: not orders.forgotten, "the broker did not ask for every forgotten order")
    _say(f"{orders.checks} checks were answered")


def _compare(spark: Any, query: Any, orders: Orders, output: Path) -> bool:
    """Compare: the archive must have every committed order once, and nothing else."""
    archive = str(output / "archive")
    _say("the archive catches up …")
    _until(lambda: _archived(spark, query, archive) >= len(orders.committed), "the archive did not catch up")
    query.stop()
    rows = spark.read.parquet(archive)
    ids = [row.msgId for row in rows.select("msgId").collect()]
    is_right = len(ids) == len(set(ids)) and set(ids) == orders.committed
    _say(
        f"archive: {len(ids):,} rows, {len(orders.committed):,} orders were committed: "
        + ("each one there once, none of the others" if is_right else "THAT IS NOT THE SAME")
    )
    totals(rows).show(5)
    return is_right


def totals(rows: Any) -> Any:
    """Return how many orders each customer placed, and their sum."""
    from pyspark.sql import functions as F  # noqa: N812

    ordered = rows.groupBy("value.customer").agg(F.count("*").alias("orders"), F.sum("value.total").alias("total"))
    return ordered.orderBy("customer")


def _archived(spark: Any, query: Any, archive: str) -> int:
    """Return how many rows the archive has, once everything durable was written."""
    query.processAllAvailable()
    count: int = spark.read.parquet(archive).count()
    return count


def _report(spark: Any, nameserver: str, begun: datetime, output: Path) -> None:
    options = TransactionOptions(
        source={"nameServer": nameserver}, first_day=begun.date(), last_day=(begun + timedelta(days=1)).date()
    )
    _say("half, op and real topics become a table and a report …")
    rows = lives(spark, options).cache()
    write_table(rows, str(output / "transactions"))
    found = figures(rows)
    title = f"Transactions of {begun.date()}"
    (output / "report.html").write_text(page(found, title=title, made_at=datetime.now(UTC)))
    _say("transactions: " + ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found.counts.items()))


def _archive(nameserver: str, output: Path) -> ArchiveOptions:
    return ArchiveOptions(
        source={"nameServer": nameserver, "subscribe": TOPIC},
        path=str(output / "archive"),
        body_format="json",
        schema=SCHEMA,
        columns=("msgId", "tags", "keys", "queueOffset"),
        every_s=1.0,
    )


def _until(happened: Callable[[], bool], otherwise: str) -> None:
    """Wait for something.

    :raises TimeoutError: it did not happen; the text is ``otherwise``.
    """
    end = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError(f"{otherwise} within {PATIENCE_S:.0f} s")
        time.sleep(0.2)  # noqa: TID251 - other processes are waited for


def _say(text: str) -> None:
    print(f"[{datetime.now(UTC):%H:%M:%S}] {text}", flush=True)


def _has_windows() -> bool:
    """Return whether a browser opens a window; a browser in the terminal would have to be ended by hand."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15, help="so long orders are placed")
    parser.add_argument("--producers", type=Choice, choices=list(Choice), default=Choice.AUTO)
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="made anew by each run")
    parser.add_argument("--no-open", dest="open", action="store_false", help="do not open the report in a browser")
    parser.set_defaults(open=sys.stdout.isatty() and _has_windows())
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
