"""The results of cells, kept beside the documentation as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from compat_tests.environment import REPOSITORY

STORED = REPOSITORY / "docs" / "compatibility.json"


@dataclass(frozen=True, slots=True, order=True)
class Result:
    """One cell: what came of it, the day, and of a failure the first line of its reason."""

    client: str
    feature: str
    peer: str
    passed: bool
    day: str
    reason: str = ""


class Results:
    """The newest result of each cell, by client, feature and peer."""

    def __init__(self, results: list[Result]) -> None:
        self._results = {(each.client, each.feature, each.peer): each for each in results}

    def get(self, client: str, feature: str, peer: str) -> Result | None:
        return self._results.get((client, feature, peer))

    def all(self) -> list[Result]:
        return sorted(self._results.values())

    def with_one(self, result: Result) -> Results:
        """Return the same results with one cell added or replaced."""
        return Results([*self._results.values(), result])

    def save(self, path: Path = STORED) -> None:
        """One cell a line, so that a change shows as one."""
        lines = ",\n".join(json.dumps(asdict(each)) for each in self.all())
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        beside.replace(path)  # whole at every moment: another run may read it


def load(path: Path = STORED) -> Results:
    """Return the results of earlier runs; none if there is no file."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return Results([Result(**row) for row in rows])
