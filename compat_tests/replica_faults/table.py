"""The outcome of a run as a file of JSON, and files of several runs beside each other as one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from compat_tests.replica_faults.run import Outcome


def rows(outcome: Outcome) -> dict[str, str]:
    """The table of one run: values by the name of a row."""
    verdict, transactions = outcome.verdict, outcome.transactions
    healed, copied = outcome.healed_s or [0.0], outcome.copied_s or [0.0]
    return {
        "pair (master-slave)": "-".join(outcome.wanted.kinds),
        "faults": f"{outcome.faults.total()}",
        **{f"  {trouble}": f"{outcome.faults[trouble]}" for trouble in outcome.faults},
        "answered SEND_OK": f"{verdict.acknowledged:,}",
        "transactions stored": f"{transactions.acknowledged:,}",
        "acknowledged and lost": f"{verdict.lost}",
        "acknowledged, at another offset": f"{verdict.moved}",
        "under two offsets": f"{verdict.doubled}",
        "under two offsets, sent again": f"{verdict.resent}",
        "committed and lost": f"{transactions.lost}",
        "transactions with two outcomes": f"{transactions.flipped + transactions.doubled}",
        "consumer offsets back": f"{outcome.offsets_back}",
        "unequal logs after healing": f"{outcome.unequal_logs}",
        "slaves emptied": f"{outcome.emptied} ({outcome.lost_tails} with a tail that nobody else had)",
        "processes that ended": f"{outcome.ended_by_themselves}",
        "other findings": "; ".join(f"{count} {kind}" for kind, count in outcome.findings.counts.items()) or "none",
        "sends refused": ", ".join(f"{count:,} × {code}" for code, count in sorted(outcome.refusals.items())) or "none",
        "healed after (median, longest)": f"{median(healed):.1f} s, {max(healed):.1f} s",
        "offsets at the slave after": f"{median(copied):.1f} s, {max(copied):.1f} s"
        if outcome.copied_s
        else "(not asked)",
        "seconds": f"{outcome.seconds:.0f}",
        "seed": f"{outcome.wanted.seed}",
    }


def write(outcome: Outcome, path: Path) -> None:
    """Keep a run for a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows(outcome), "wrong": outcome.findings.sentences}, indent=1) + "\n")


def lines(paths: Sequence[Path]) -> list[str]:
    """The runs beside each other, one row a line."""
    runs = [json.loads(path.read_text())["rows"] for path in paths]
    names = list(dict.fromkeys(name for run in runs for name in run))
    width = max(map(len, names))
    columns = [max(len(value) for value in run.values()) for run in runs]
    return [
        f"{name:<{width}}  "
        + "  ".join(f"{run.get(name, '0'):<{column}}" for run, column in zip(runs, columns, strict=True))
        for name in names
    ]
