"""``rocketmq-gateway store``: look at, verify, repair, dump and copy a store directory that nobody serves.

Exit codes: 0 done, nothing wrong; 1 something is wrong with the directory; 2 the command could not run;
141 the reader of the output has gone (``… | head``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gateway.cli.migrate_transactions import migrate_transactions
from gateway.cli.options import Sources, settings_sources
from gateway.cli.output import say, say_json

if TYPE_CHECKING:
    from gateway.settings.store import StoreSettings
    from gateway.store_tool.checks.verification import Verification
    from gateway.store_tool.look.dump import DumpSelection
    from gateway.store_tool.progress import Progress
    from gateway.store_tool.repair.repair_plan import RepairPlan

FOUND = 1
MAX_SHOWN = 100
"""The number of findings that are printed without --all."""

_directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
_jobs = click.option("--jobs", type=click.IntRange(1, 256), help="Processes (default: one per core).")
_settings = settings_sources(
    set_help="A setting the directory was written with, e.g. --set maxHashSlotNum=100000; may be repeated.",
    config_help=(
        "The broker.conf the directory was written with: sizes of index files, delay levels, storePathCommitLog."
    ),
)


@click.group(
    epilog="""\b
Examples:
  rocketmq-gateway store inspect ./data          what is there
  rocketmq-gateway store verify ./data           is all of it intact
  rocketmq-gateway store repair ./data           what a repair would do; --apply does it
  rocketmq-gateway store dump ./data --topic orders --limit 10
  rocketmq-gateway store export ./data ./for-apache
  rocketmq-gateway store import ~/store ./data
  rocketmq-gateway store migrate-transactions ./data --to table

\b
DIR is what --data (storePathRootDir) names. Stop the server first: no command works on a directory in use.
Only repair --apply and the target of a copy are written; everything else only reads. migrate-transactions opens and
closes DIR as a server does.
Exit code: 0 fine, 1 something is wrong with the directory, 2 the command could not run.
"""
)
def store() -> None:
    """Look at, verify, repair, dump and copy a store directory."""


@store.command(
    epilog="""\b
Examples:
  rocketmq-gateway store inspect ./data
      files with their sizes and holes, offsets, times, queues, index, checkpoint
  rocketmq-gateway store inspect ./data --topic orders --json
      for programs; the queues of one topic only
  rocketmq-gateway store inspect ./data --live
      while a server has it open: figures may be a moment apart
"""
)
@_directory
@click.option("--topic", metavar="NAME", help="Only the queues of this topic.")
@click.option("--live", is_flag=True, help="Look even though a server has the directory open.")
@_json
@_settings
def inspect(directory: Path, topic: str | None, live: bool, as_json: bool, sources: Sources) -> None:
    """Show what lies in DIR, without reading the messages."""
    from gateway.store_tool.files.directory import opened
    from gateway.store_tool.look.inspection import Inspection
    from gateway.store_tool.look.named_queue import refuse_unknown

    with opened(directory, _terms(sources).settings, live=live) as found:
        refuse_unknown(found, topic)
        inspection = Inspection(found, topic)
        if as_json:
            say_json(inspection.to_json(), indent=2)
        else:
            for line in inspection.lines():
                say(line)


@store.command(
    epilog="""\b
Examples:
  rocketmq-gateway store verify ./data
      every record, consume queue unit, index entry, the checkpoint and the JSON files
  rocketmq-gateway store verify ./data --json | jq .damage
      for programs
  rocketmq-gateway store verify ~/store -c broker.conf
      a directory of Apache RocketMQ, with the settings it was written with

\b
Each finding is one line: file, byte, what is wrong, what would fix it.
What a killed server leaves, and the next start settles, is told of but does not count.
The format has a checksum of the body only: in fields that nothing repeats (flag, system flag, born and store
time, hosts, reconsume times, properties but keys and tags) damage that still makes sense is not seen.
Exit code: 0 nothing wrong, 1 findings, 2 could not run.
"""
)
@_directory
@click.option("--all", "show_all", is_flag=True, help=f"Print all findings, not only the first {MAX_SHOWN}.")
@_jobs
@_json
@_settings
@click.pass_context
def verify(
    context: click.Context, directory: Path, show_all: bool, jobs: int | None, as_json: bool, sources: Sources
) -> None:
    """Check everything in DIR; nothing is changed."""
    with _terms(sources, jobs).verified(directory, quiet=as_json) as (verification, seconds):
        if as_json:
            say_json(_verification_json(verification, seconds), indent=2)
        else:
            _echo_findings(verification, seconds, show_all=show_all)
    if not verification.findings.is_clean:
        context.exit(FOUND)


@store.command(
    epilog="""\b
Examples:
  rocketmq-gateway store repair ./data
      what would be done; changes nothing
  rocketmq-gateway store repair ./data --apply
      does it

\b
A damaged stretch in the middle of the commit log is filled with intact records: a message that lay in a queue
is replaced by one of the same offset that says what happened (tag STORE_REPAIR_STAND_IN), so that queues have
no hole. Consume queues and index files that differ from the log are made again from it, JSON files restored
from their backups. All that is changed is kept in DIR/recovered/repair-TIME, with a report.
Exit code: 0 nothing (more) to do, 1 there is something to do, or something is left, 2 could not run.
"""
)
@_directory
@click.option("--apply", "apply_it", is_flag=True, help="Do it, instead of only showing it.")
@_jobs
@_settings
@click.pass_context
def repair(context: click.Context, directory: Path, apply_it: bool, jobs: int | None, sources: Sources) -> None:
    """Show what would repair DIR, and with --apply do it."""
    from gateway.clock import wall_clock_ms
    from gateway.store_tool.repair.repair import Repair, rebuild
    from gateway.store_tool.repair.repair_plan import make_plan

    terms = _terms(sources, jobs)
    with terms.verified(directory, write=apply_it) as (verification, _):
        plan = make_plan(verification)
        damage = verification.findings.damage
        _say_some([str(finding) for finding in damage], "more findings; store verify --all shows them")
        for line in _summary(plan, verification):
            say(line)
        if plan.is_empty:
            if verification.findings.is_clean:
                return
            say("Nothing of this can be repaired here; each finding says what would fix it.")
            context.exit(FOUND)
        if not apply_it:
            say(f"Nothing was changed. To do it: rocketmq-gateway store repair {directory} --apply")
            context.exit(FOUND)
        work = Repair(plan, [str(finding) for finding in verification.findings.damage], wall_clock_ms())
        work.run()
    if plan.rebuilds:
        remarks = rebuild(plan, wall_clock_ms, terms.delay_of, _progress())
        work.report_more(remarks)
        for remark in remarks:
            say(f"Note: {remark}")
    say(f"The originals are in {work.kept}")
    if plan.lost_messages:
        say(f"{len(plan.lost_messages)} messages could not be saved; {work.kept / 'report'} lists them")
    with terms._replace(settings=plan.directory.settings).verified(directory) as (after, seconds):
        _echo_findings(after, seconds)
    if not after.findings.is_clean:
        context.exit(FOUND)


def _summary(plan: RepairPlan, verification: Verification) -> list[str]:
    if lines := plan.lines():
        return ["", "To be done:", *(f"  {line}" for line in lines)]
    return ["Nothing has to be repaired."] if verification.findings.is_clean else [""]


store.add_command(migrate_transactions)


class OffsetRange(click.ParamType):  # type: ignore[type-arg]
    """A range ``A:B``, ``A:`` or ``:B``; the end is not included."""

    name = "A:B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        """Return the first offset and the end."""
        if isinstance(value, tuple):
            return value
        first, colon, end = str(value).partition(":")
        if not colon or not all(part.isdecimal() or not part for part in (first, end)):
            self.fail(f"{value!r} is not A:B with numbers; the end is not included", param, ctx)
        return int(first or 0), int(end) if end else None


class LocalTime(click.ParamType):  # type: ignore[type-arg]
    """A local time such as ``2026-05-04T10:11:12``, or milliseconds since 1970."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds since 1970."""
        if isinstance(value, int):
            return value
        if str(value).isdecimal():
            return int(value)
        try:
            return int(datetime.fromisoformat(str(value)).timestamp() * 1000)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-05-04T10:11:12 or 1777882272000 (ms)", param, ctx)


@store.command(
    epilog="""\b
Examples:
  rocketmq-gateway store dump ./data --topic orders --queue 0 --offset 100:110
      ten messages of one queue; the end is not included
  rocketmq-gateway store dump ./data --from 2026-05-04T10:00 --to 2026-05-04T10:05 > messages.jsonl
      what was stored in five minutes, in all topics
  rocketmq-gateway store dump ./data --topic orders --key A-4711 | jq -r .body
      the messages with a key or a unique id
  rocketmq-gateway store dump ./data --topic RMQ_SYS_TRANS_HALF_TOPIC --system
      half messages, with --system also the records of decisions

\b
One JSON object a line: topic, queue_id, queue_offset, commit_log_offset, times, ids, properties, and body when it is
UTF-8, else body_base64. Damaged records are told of on standard error, and so it is when no message was found.
Exit code: 0 done, 1 some were damaged, 2 could not run, or there is no such topic or queue.
"""
)
@_directory
@click.option("--topic", metavar="NAME", help="Only this topic.")
@click.option("--queue", "queue_id", type=click.IntRange(0), help="Only this queue.")
@click.option("--offset", "offsets", type=OffsetRange(), help="Only these queue offsets, e.g. 100:110, 100: or :10.")
@click.option("--from", "from_ms", type=LocalTime(), default=0, help="Only messages stored at this time or later.")
@click.option("--to", "to_ms", type=LocalTime(), help="Only messages stored before this time.")
@click.option("--key", metavar="TEXT", help="Only messages with this key or unique id.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many messages.")
@click.option("--system", is_flag=True, help="Also half messages, records of decisions, and what no queue shows.")
@click.option("--scan", is_flag=True, help="Walk through the whole log instead of trusting the consume queues.")
@_settings
def dump(directory: Path, limit: int | None, scan: bool, sources: Sources, **wanted: Any) -> None:
    """Print messages of DIR as JSON, one a line."""
    from itertools import islice

    from gateway.store_tool.files.directory import opened
    from gateway.store_tool.look.dump import Dump, record_line
    from gateway.store_tool.look.named_queue import refuse_unknown

    selection = _selection(**wanted)
    with opened(directory, _terms(sources).settings) as found:
        if not scan:  # lost queues are what a scan is for
            refuse_unknown(found, selection.topic, selection.queue_id)
        reading = Dump(found, selection, lambda text: _tell_damage(reading.damaged, text))
        count = 0
        for message in islice(reading.messages(scan=scan), limit):
            say(record_line(message))
            count += 1
        if not count and scan:
            refuse_unknown(found, selection.topic, selection.queue_id)
    if not count:
        say("No message matches.", err=True)
    if reading.damaged:
        was = "record was" if reading.damaged == 1 else "records were"
        say(f"{reading.damaged} damaged {was} skipped", err=True)
        click.get_current_context().exit(FOUND)


@store.command(
    epilog="""\b
Examples:
  rocketmq-gateway store export ./data ./for-apache
      a copy that Apache RocketMQ 5 serves: set storePathRootDir to it
  rocketmq-gateway store export ./data ./for-apache --for 4.9
      refuses what only 5.x reads

\b
DIR is verified first, holes stay holes, the copy is read back, nothing is overwritten.
Sizes that are not the usual ones are printed: the broker needs them in its broker.conf.
"""
)
@_directory
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@click.option("--for", "apache", type=click.Choice(["5", "4.9"]), default="5", help="Which Apache RocketMQ.")
@_jobs
@_settings
def export(directory: Path, target: Path, apache: str, jobs: int | None, sources: Sources) -> None:
    """Copy DIR to TARGET for Apache RocketMQ."""
    from gateway.store_tool.transfer import plan_export

    _transfer(directory, target, _terms(sources, jobs), lambda verification: plan_export(verification, apache))


@store.command(
    name="import",
    epilog="""\b
Examples:
  rocketmq-gateway store import ~/store ./data
      a copy of a directory of Apache RocketMQ; then: rocketmq-gateway serve --data ./data
  rocketmq-gateway store import ~/store ./data -c broker.conf
      with the settings it was written with (sizes of index files, storePathCommitLog)

\b
SOURCE is verified first, holes stay holes, the copy is read back, nothing is overwritten. What the gateway does not
have (batch queues, compacted topics, settings in RocksDB) is refused; --accept-loss leaves it behind.
""",
)
@click.argument("directory", metavar="SOURCE", type=click.Path(path_type=Path))
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--accept-loss", is_flag=True, help="Leave behind what the gateway cannot serve.")
@_jobs
@_settings
def import_(directory: Path, target: Path, accept_loss: bool, jobs: int | None, sources: Sources) -> None:
    """Copy a directory of Apache RocketMQ, SOURCE, to DIR."""
    from gateway.store_tool.transfer import plan_import

    terms = _terms(sources, jobs)
    _transfer(directory, target, terms, lambda verification: plan_import(verification, accept_loss=accept_loss))


def _say_some(lines: Sequence[str], more: str, most: int = MAX_SHOWN) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines[:most]:
        say(line)
    if len(lines) > most:
        say(f"… and {len(lines) - most} {more}")


def _selection(offsets: tuple[int, int | None] | None, **wanted: Any) -> DumpSelection:
    from gateway.store_tool.look.dump import DumpSelection

    first, end = offsets or (0, None)
    return DumpSelection(first_offset=first, end_offset=end, **wanted)


def _tell_damage(number: int, text: str) -> None:
    """Report a damaged record, up to ``MAX_SHOWN`` times. The command prints the number of all at its end.

    :param number: how many damaged records there were so far, counted from 1.
    """
    if number <= MAX_SHOWN:
        say(f"Damaged: {text}", err=True)
    elif number == MAX_SHOWN + 1:
        say("… more records are damaged; they are counted only", err=True)


# --- what the commands share -----------------------------------------------------------------------------------------


def _transfer(source: Path, target: Path, terms: _Terms, plan: Callable[[Verification], Any]) -> None:
    from gateway.store_tool.transfer import carry_out, refuse_target

    refuse_target(source, target, 0)
    with terms.verified(source) as (verification, _):
        transfer = plan(verification)
        carry_out(transfer, verification.directory, target, _progress())
    say(
        f"{len(transfer.files)} files, {transfer.used_bytes >> 20} MiB, {verification.outline.records} messages "
        f"copied to {target} and read back"
    )
    for remark in transfer.remarks:
        say(f"Note: {remark}")


class _Terms(NamedTuple):
    """The terms of a look at a directory: its settings, each level's delay in milliseconds, the number of processes."""

    settings: StoreSettings
    delay_of: Callable[[int], int | None]
    jobs: int | None

    @contextmanager
    def verified(
        self, directory: Path, *, write: bool = False, quiet: bool = False
    ) -> Iterator[tuple[Verification, float]]:
        """Verify a directory, and yield the verification with its seconds; the directory stays locked."""
        from time import monotonic

        from gateway.store_tool.checks.verification import Verification
        from gateway.store_tool.files.directory import opened

        with opened(directory, self.settings, write=write) as found:
            begun, progress = monotonic(), _progress(quiet=quiet)
            verification = Verification(found, progress=progress, jobs=self.jobs or 0, delay_of=self.delay_of)
            verification.run()
            yield verification, monotonic() - begun


def _terms(sources: Sources, jobs: int | None = None) -> _Terms:
    """Return the terms from a command's options."""
    from gateway.cli.options import load_options
    from gateway.schedule.redirect import DelayLevels
    from gateway.settings.files.load import Role

    settings = load_options(Role.BROKER, sources).settings
    levels = DelayLevels.parse(settings.message_delay_level)
    return _Terms(settings, lambda level: levels.delay_ms(level) if 0 < level <= levels.last else None, jobs)


def _progress(*, quiet: bool = False) -> Progress:
    from time import monotonic

    from gateway.store_tool.progress import Progress

    return Progress(sys.stderr, monotonic, quiet=quiet)


def _echo_findings(verification: Verification, seconds: float, *, show_all: bool = False) -> None:
    findings, outline = verification.findings, verification.outline
    shown = findings.damage if show_all else findings.damage[:MAX_SHOWN]
    for finding in shown:
        say(str(finding))
    for finding in findings.unsettled if show_all else findings.unsettled[:MAX_SHOWN]:
        say(f"After a kill: {finding}")
    notes = [f"Note: {note}" for note in findings.notes]
    _say_some(notes, "more notes; --all shows them", len(notes) if show_all else MAX_SHOWN)
    left = len(findings.damage) - len(shown) + findings.dropped
    if left:
        say(f"… and {left} more findings" + ("" if show_all else "; --all shows them"))
    speed = outline.walked_bytes / seconds / 1e6 if seconds > 0 else 0.0
    what = f"{outline.records} messages, {outline.walked_bytes >> 20} MiB of commit log"
    count = len(findings.damage) + findings.dropped
    verdict = "intact" if findings.is_clean else f"{count} findings" if count > 1 else "1 finding"
    say(f"{verification.directory.root}: {verdict} ({what}, {seconds:.1f} s, {speed:.0f} MB/s)")


def _verification_json(verification: Verification, seconds: float) -> dict[str, Any]:
    findings, outline = verification.findings, verification.outline
    return {
        "directory": str(verification.directory.root),
        "clean": findings.is_clean,
        "killed": verification.directory.killed,
        "messages": outline.records,
        "commit_log_end": outline.end,
        "bytes": outline.walked_bytes,
        "seconds": round(seconds, 3),
        "damage": [finding.to_json() for finding in findings.damage],
        "unsettled": [finding.to_json() for finding in findings.unsettled],
        "notes": findings.notes,
        "not_listed": findings.dropped,
    }
