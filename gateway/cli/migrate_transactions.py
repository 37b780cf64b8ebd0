"""``rocketmq-gateway store migrate-transactions``: pending transactions from one state store to another.

Exit codes are those of ``store repair``: 0 nothing (more) to do, 1 there is something to do, 2 could not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from gateway.cli.options import Sources, settings_sources
from gateway.cli.output import say
from gateway.readable import duration_text

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.store_tool.files.scratch_files import ScratchFiles
    from gateway.transaction.restart.migration import Migration, Plan
    from gateway.transaction.state_stores.choice import StateChoice
    from gateway.transaction.state_stores.database import Database

TO_DO = 1
MAX_GROUPS_SHOWN = 20


@click.command(
    name="migrate-transactions",
    epilog="""\b
Examples:
  rocketmq-gateway store migrate-transactions ./data --to table
      what would be moved; --apply does it
  rocketmq-gateway store migrate-transactions ./data --to database --dsn postgresql://rmq@db/transactions --apply
      the password comes from PGPASSWORD, PGPASSFILE or a service file
  rocketmq-gateway store migrate-transactions ./data --to queue --apply
      before Apache RocketMQ is to serve the directory

\b
Stop the server first. Without --apply nothing in DIR is written: what a start would mend there is mended in a copy of
those files, in the system's temporary directory.
Half messages keep their places. A move that is cut short has not happened, and may be made again.
Then start the server with transactionStateStore (and gateway.transactionDatabase) set to where they are.
""",
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--to", "wanted", required=True, type=click.Choice(["queue", "table", "database"]), help="Where to.")
@click.option("--dsn", help="The database to move to, instead of gateway.transactionDatabase.")
@click.option("--apply", "apply_it", is_flag=True, help="Do it, instead of only showing it.")
@settings_sources(
    set_help="A setting the directory was served with, e.g. --set gateway.transactionDatabase=…; may be repeated.",
    config_help="The broker.conf the directory was served with.",
)
@click.pass_context
def migrate_transactions(
    context: click.Context, directory: Path, wanted: str, dsn: str | None, apply_it: bool, sources: Sources
) -> None:
    """Move pending transactions of DIR to another state store."""
    from gateway.cli.options import load_options
    from gateway.errors import SettingsError
    from gateway.settings.files.load import Role
    from gateway.settings.transaction import database_expected
    from gateway.store_tool.files.directory import opened

    settings = load_options(Role.BROKER, sources).settings
    settings = replace(settings, store_path_root_dir=directory.absolute())
    if dsn is not None and (expected := database_expected(dsn)) is not None:
        raise SettingsError(f"--dsn: expected {expected}")
    if dsn is not None and wanted != "database":
        raise SettingsError("--dsn names the database to move to: it goes with --to database")
    with _telling_what_prevents_it():
        with opened(directory, settings):
            if not apply_it:
                if not _look(settings, wanted, dsn):
                    say("Nothing was moved. To do it, add --apply")
                    context.exit(TO_DO)
                return
        with _migration(settings, wanted, dsn) as migration:  # the store takes its own lock
            plan = _show(migration)
            if plan.is_done:
                return
            records = migration.run()
    say(
        f"Moved. Start the server with transactionStateStore={wanted}"
        + (f", gateway.transactionDatabase={dsn}" if dsn else "")
    )
    if records:
        say(f"{records} op records were written")
    if plan.left is not None:
        say(f"{plan.left} keeps its rows: a copy of the directory may use them. If there is none, drop both tables")


@contextmanager
def _telling_what_prevents_it() -> Iterator[None]:
    """Turn every failure to read, reach or write something into ``CannotRun``."""
    from gateway.errors import GatewayError
    from gateway.store_tool.errors import CannotRun

    try:
        yield
    except GatewayError as error:
        raise CannotRun(str(error)) from error
    except OSError as error:
        raise CannotRun(f"{error.filename or 'the directory'}: {error.strerror or error}") from error


def _look(settings: Settings, wanted: str, dsn: str | None) -> bool:
    """Show what there is to do, without a change to the directory; return whether there is nothing to do."""
    from gateway.store_tool.files.scratch_files import ScratchFiles

    with (
        TemporaryDirectory(prefix="rocketmq-gateway-") as scratch,
        _migration(settings, wanted, dsn, ScratchFiles(Path(scratch))) as migration,
    ):
        return _show(migration).is_done


def _show(migration: Migration) -> Plan:
    """Make the plan and print it."""
    from gateway.clock import wall_clock_ms

    plan = migration.plan()
    for line in _lines(plan, wall_clock_ms()):
        say(line)
    return plan


def _lines(plan: Plan, now_ms: int) -> list[str]:
    """Return lines about a planned move: the pending transactions, their groups, and what remains to do."""
    age = "" if plan.oldest_ms is None else f", the oldest {duration_text(now_ms - plan.oldest_ms)} old"
    lines = [f"{plan.count} pending transactions in the state store '{plan.has}'{age}"]
    groups = sorted(plan.groups.items(), key=lambda item: -item[1])
    lines += [f"  {count} of producer group {group}" for group, count in groups[:MAX_GROUPS_SHOWN]]
    if len(groups) > MAX_GROUPS_SHOWN:
        lines.append(f"  and {len(groups) - MAX_GROUPS_SHOWN} more groups")
    lines.append("They are where they should be." if plan.is_done else f"To be done: move them to '{plan.wanted}'")
    return lines


@contextmanager
def _migration(
    settings: Settings, wanted: str, dsn: str | None, files: ScratchFiles | None = None
) -> Iterator[Migration]:
    """Open the directory, and yield a migration; the directory is closed at the end.

    :param files: take the writes instead of the directory.
    """
    from gateway.clock import wall_clock_ms
    from gateway.in_thread import in_this_thread
    from gateway.metadata.offsets import ConsumerOffsets
    from gateway.schedule.redirect import DelayLevels
    from gateway.settings.transaction import TransactionStateStore
    from gateway.store.durability.surroundings import StoreSurroundings
    from gateway.store.message_store import MessageStore
    from gateway.transaction.checks.check_journal import CheckJournal
    from gateway.transaction.restart.migration import Migration, OpenDirectory
    from gateway.transaction.state_stores.choice import StateChoice
    from wire.message.message_id import pack_host

    source = StateChoice.from_settings(settings, files)
    if files is not None:
        source = replace(source, open_rows=partial(_copied_rows, source, files))
    target = replace(source, wanted=TransactionStateStore(wanted))
    if dsn is not None:
        target = replace(target, database=dsn)
        if files is not None:
            target = replace(target, open_rows=partial(_copied_rows, target, files))
    root = settings.store_path_root_dir
    levels = DelayLevels.parse(settings.message_delay_level)
    store = MessageStore(
        root,
        settings,
        StoreSurroundings(clock_ms=wall_clock_ms, files=files),
        delay_of=lambda level: levels.delay_ms(level) if 0 < level <= levels.last else None,
    )
    store.open()
    journal = CheckJournal(source.directory / "checks", in_thread=in_this_thread, files=files)
    try:
        offsets = ConsumerOffsets(
            path=root / "config" / "consumerOffset.json",
            light_queues=settings.enable_lmq,
            clock_ms=wall_clock_ms,
            in_thread=in_this_thread,
        )
        offsets.load()
        journal.load()
        host = pack_host("127.0.0.1", settings.listen_port)
        directory = OpenDirectory(store=store, offsets=offsets, journal=journal, host=host)
        migration = Migration(source, target, directory, settings.transaction_op_msg_max_size, wall_clock_ms)
        try:
            yield migration
        finally:
            migration.close()
    finally:
        journal.close()
        store.close()


def _copied_rows(choice: StateChoice, files: ScratchFiles) -> Database:
    """Open the database of a choice; if it is a file, a copy, because SQLite writes even when it only reads."""
    from gateway.transaction.state_stores.choice import database_file, open_database

    file = database_file(choice.database, choice.directory)
    if file is None:
        return open_database(choice.database, choice.directory)
    return open_database(f"sqlite:{files.copied_database(file)}", choice.directory)
