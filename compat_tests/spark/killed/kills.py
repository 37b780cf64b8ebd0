"""Kills at every point of a micro-batch: what arrives is what was committed, each message once.

    python -m compat_tests.spark.killed.kills [--seeds 100] [--first 0] [--trial archive|sink] [--executors-every 5]
    python -m compat_tests.spark.killed.kills --report kills.jsonl [--at-most 6]      goes on where the report ends

A seed is a trial of each kind (see ``trials``), on gateways and topics of their own, with one Spark driver that serves
until it is killed. Every fifth seed has two executors in processes of their own. The summary is of all that the report
has.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from compat_tests.spark.class_archive import class_archive
from compat_tests.spark.driver import Driver
from compat_tests.spark.killed.trials import EXECUTORS, LOCAL, ArchiveTrial, Comparison, SinkTrial

TRIALS = {"archive": ArchiveTrial, "sink": SinkTrial}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial.

    :param kills: how often what died, by its name.
    :param failure: empty when all of it holds.
    """

    trial: str
    seed: int
    master: str
    seconds: float
    rows: int = 0
    lost: int = 0
    twice: int = 0
    strange: int = 0
    starts_given_up: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    failure: str = ""

    def __str__(self) -> str:
        said = "; ".join(self.events) or "nothing died"
        begin = f"seed {self.seed} {self.trial}: {self.seconds:.0f} s, {self.rows} rows"
        return f"{begin}, FAILED: {self.failure}; {said}" if self.failure else f"{begin}; {said}"


def run_seed(driver: Driver, trial: str, seed: int) -> Outcome:
    """One trial in a directory of its own."""
    begun, compared, failure = time.monotonic(), Comparison(0, (), (), ()), ""
    with tempfile.TemporaryDirectory(prefix="spark-kills-") as folder:
        made = TRIALS[trial](driver, Path(folder), seed)
        try:
            compared = made.do()
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has failed and the next ones are done
            failure = f"{type(error).__name__}: {error}"
    wrong = [(name, getattr(compared, name)) for name in ("lost", "twice", "strange")]
    failure = failure or "; ".join(f"{len(rows)} rows {name}: {', '.join(rows[:20])}" for name, rows in wrong if rows)
    return Outcome(
        trial,
        seed,
        driver.master,
        time.monotonic() - begun,
        compared.rows,
        len(compared.lost),
        len(compared.twice),
        len(compared.strange),
        made.starts_given_up,
        dict(made.kills),
        made.events,
        failure,
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return a few lines about many trials."""
    lines = []
    for trial in TRIALS:
        its = [outcome for outcome in outcomes if outcome.trial == trial]
        if its:
            lines.append(f"{trial}: {_line(its)}")
    kills: Counter[str] = Counter()
    for outcome in outcomes:
        kills.update(outcome.kills)
    died = ", ".join(f"{kind} {count}" for kind, count in sorted(kills.items()))
    failed = ", ".join(f"{outcome.trial} {outcome.seed}" for outcome in outcomes if outcome.failure)
    given_up = sum(outcome.starts_given_up for outcome in outcomes)
    lines += [f"died: {died or 'nothing'}", f"undisturbed runs that Spark gave up before they began: {given_up}"]
    return "\n".join([*lines, f"failed: {failed or 'none'}"])


def _line(outcomes: Sequence[Outcome]) -> str:
    rows, lost, twice, strange = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("rows", "lost", "twice", "strange")
    )
    own = sum(outcome.master == EXECUTORS for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes) / len(outcomes)
    return (
        f"{len(outcomes)} seeds, {own} of them with executors; {rows:,} rows; lost {lost}, twice {twice}, "
        f"not committed {strange}; {seconds:.0f} s a seed"
    )


class Report:
    """Outcomes in a file, a line each, so that a long run may be done in parts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.outcomes = [Outcome(**json.loads(line)) for line in lines]

    def has(self, trial: str, seed: int) -> bool:
        """Return whether the work is done."""
        return any((outcome.trial, outcome.seed) == (trial, seed) for outcome in self.outcomes)

    def add(self, outcome: Outcome) -> None:
        """Write it down."""
        self.outcomes.append(outcome)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def main() -> None:
    """Run seeds, and say what happened in each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trial", choices=sorted(TRIALS), action="append", help="default: each")
    parser.add_argument("--executors-every", type=int, default=5, help="so many-th seeds have executors of their own")
    parser.add_argument("--report", type=Path, help="file of outcomes; what it has is not done again")
    parser.add_argument("--at-most", type=int, default=10**9, help="trials of this call")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark-kills-log-") as folder:
        report = Report(options.report or Path(folder) / "report.jsonl")
        wanted = [
            (seed, trial)
            for seed in range(options.first, options.first + options.seeds)
            for trial in options.trial or sorted(TRIALS)
            if not report.has(trial, seed)
        ][: options.at_most]
        own = options.executors_every
        for master in (LOCAL, EXECUTORS):
            its = [each for each in wanted if (each[0] % own == own - 1) == (master == EXECUTORS)]
            for outcome in _run(master, its, Path(folder) / "spark.log") if its else ():
                report.add(outcome)
                print(f"{time.strftime('%H:%M:%S')} {outcome}", flush=True)
        print(summary(report.outcomes), flush=True)
        raise SystemExit(1 if any(outcome.failure for outcome in report.outcomes) else 0)


def _run(master: str, wanted: Sequence[tuple[int, str]], log: Path) -> Iterator[Outcome]:
    """Trials with one master."""
    with closing(Driver(master, log, classes=class_archive())) as driver:
        for seed, trial in wanted:
            outcome = run_seed(driver, trial, seed)
            if outcome.failure:
                driver.kill()
            yield outcome


if __name__ == "__main__":
    main()
