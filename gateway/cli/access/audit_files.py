"""``rocketmq-gateway access audit``: read the audit files of a server, also while it runs."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from gateway.access.audit import changes_file
from gateway.cli.access.places import with_examples
from gateway.cli.options import as_json, gathered
from gateway.cli.output import say, say_json, say_table

MAX_LINE = 65_536
COLUMNS = ("time", "event", "account", "host", "client", "request", "resource", "action", "rule", "times")


class _Wanted(NamedTuple):
    """The choice of lines; an empty text chooses all."""

    account: str
    host: str
    resource: str
    request: str
    event: str
    since: str

    def includes(self, entry: dict[str, Any]) -> bool:
        exact = (("account", self.account), ("host", self.host), ("event", self.event))
        if any(text and str(entry.get(name, "")) != text for name, text in exact):
            return False
        if self.request and self.request.upper() not in (str(entry.get("code")), entry.get("request")):
            return False
        return self.resource in str(entry.get("resource", "")) and str(entry.get("time", "")) >= self.since


@click.command(
    epilog=with_examples("""\
  rocketmq-gateway access audit data/audit.jsonl                       the last 50 lines
  rocketmq-gateway access audit data/audit.jsonl --account shop        why shop was refused
  rocketmq-gateway access audit data/audit.jsonl --event changed       who changed users and policies
  rocketmq-gateway access audit data/audit.jsonl --request 310 --since 2026-05-04T10 --limit 1000 --json

\b
FILE is gateway.auditFile of the server; without that setting audit.jsonl in its store directory. Its older parts,
FILE.1, FILE.2 and so on, are read as well, and so are the files of changes beside it, such as audit.changes.jsonl.
TIMES: so many equal refusals within a second or so are one line.""")
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--account", default="", metavar="NAME", help="Only this account.")
@click.option("--host", default="", metavar="IP", help="Only from this address.")
@click.option("--resource", default="", metavar="PART", help="Only resources that contain this.")
@click.option("--request", default="", metavar="CODE", help="Only this request: a number or a name.")
@click.option(
    "--event", type=click.Choice(["refused", "changed"]), default=None, help="Only refusals, or only changes."
)
@click.option("--since", default="", metavar="TIME", help="Only from this UTC time on: 2026-05-04 or 2026-05-04T10:11.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The last so many.")
@as_json
@gathered(
    "wanted",
    lambda account, host, resource, request, event, since: _Wanted(
        account, host, resource, request, event or "", since
    ),
)
def audit(wanted: _Wanted, file: Path, limit: int, as_json: bool) -> None:
    """Show refusals and changes of accounts, the newest last."""
    refusals, changes = _parts(file), _parts(changes_file(file))
    if not refusals and not changes:
        raise click.UsageError(
            f"there is no file {file}: nothing was refused or changed yet, or gateway.auditFile differs"
        )
    found: list[dict[str, Any]] = []
    unreadable = 0
    for entry in heapq.merge(*(_entries_of(parts) for parts in (refusals, changes)), key=_time_of):
        if entry is None:
            unreadable += 1
        elif wanted.includes(entry):
            found.append(entry)
            if len(found) > 2 * limit:
                del found[:-limit]
    found = found[-limit:]
    if as_json:
        for entry in found:
            say_json(entry)
    else:
        rows = [[str(entry.get(name, "")) for name in COLUMNS] for entry in found]
        say_table([name.upper() for name in COLUMNS], rows)
    if unreadable:
        say(f"{unreadable} lines cannot be read: a crash cuts one, more were changed by somebody", err=True)


def _parts(file: Path) -> list[Path]:
    """Return the files of a rotated file that are there, the oldest first."""
    numbered = [
        (int(part.name.rpartition(".")[2]), part)
        for part in file.parent.glob(f"{file.name}.*")
        if part.name.rpartition(".")[2].isdecimal()
    ]
    older = [part for _, part in sorted(numbered, reverse=True)]
    return [*older, *([file] if file.exists() else [])]


def _entries_of(parts: list[Path]) -> Iterator[dict[str, Any] | None]:
    """Yield the objects of a rotated file, the oldest first."""
    return (entry for part in parts for entry in _entries(part))


def _time_of(entry: dict[str, Any] | None) -> str:
    return "" if entry is None else str(entry.get("time", ""))


def _entries(file: Path) -> Iterator[dict[str, Any] | None]:
    """Yield each line's object, None for a line without one."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(MAX_LINE):
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    entry = None
                yield entry if isinstance(entry, dict) else None
    except FileNotFoundError:  # renamed meanwhile
        return
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}; it belongs to the server's user") from error
