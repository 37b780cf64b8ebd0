"""The findings of a soak, as one table."""

from __future__ import annotations

from statistics import median

from compat_tests.soak.findings import Wrong
from compat_tests.soak.soak import Report


def lines(report: Report) -> list[str]:
    """The table, one row a line, and below it what is wrong in words."""
    rows = [*_work(report), *_verdicts(report), *_circumstances(report)]
    width = max(len(name) for name, _ in rows)
    table = [f"{name:<{width}}  {value}" for name, value in rows]
    if report.findings.is_clean:
        return [*table, "", "nothing is wrong"]
    kept = f"kept for a look: {report.wanted.directory}"
    return [*table, "", *report.findings.sentences, kept]


def _work(report: Report) -> list[tuple[str, str]]:
    load = report.load
    transactions = load.accounts["transactions"]
    refused = ", ".join(f"{count:,} × {code}" for code, count in sorted(load.refusals.items()))
    plain_found = load.total(lambda account: account.found) - transactions.found
    return [
        ("acknowledged", f"{load.plain_acknowledged():,}"),
        ("found", f"{plain_found:,} (some of them were sent without an answer)"),
        ("transactions committed", f"{transactions.committed:,}, found {transactions.found:,}"),
        ("transactions rolled back", f"{transactions.told_rolled_back:,}"),
        ("repeated by a client's retry", f"{load.total(lambda account: account.repeated_by_client):,}"),
        ("delivered again", f"{load.total(lambda account: account.redelivered):,}"),
        ("sends refused or unanswered", refused or "none"),
    ]


def _verdicts(report: Report) -> list[tuple[str, str]]:
    counts = report.findings.counts
    always = (Wrong.LOST, Wrong.DOUBLED, Wrong.FLIPPED, Wrong.BACKWARDS, Wrong.MISSED)
    return [(str(kind), f"{counts[kind]:,}") for kind in Wrong if kind in always or counts[kind]]


def _circumstances(report: Report) -> list[tuple[str, str]]:
    starts = report.broker.start_times_s
    rounds = ", ".join(f"{count} {fault}" for fault, count in report.rounds.items())
    unread = report.load.total(lambda account: account.expired_unread)
    return [
        ("log files deleted", f"{report.log_files_deleted:,}" + (f"; {unread:,} messages unread" if unread else "")),
        ("rounds", f"{report.rounds.total()} ({rounds}) in {report.seconds:.0f} s"),
        ("kills", f"{report.broker.kills}"),
        ("restart", f"median {median(starts):.2f} s, longest {max(starts):.2f} s"),
        ("seed", f"{report.wanted.seed}"),
    ]
