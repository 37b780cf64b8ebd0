"""The lines of a benchmark of several rounds: one for each round, and the medians."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping


def tell_rounds(part: str, rounds: Iterable[Mapping[str, float]]) -> None:
    """Print the figures of each round of a part as soon as it has ended, and their medians."""
    ended: list[Mapping[str, float]] = []
    for found in rounds:
        ended.append(found)
        print(part, _figures(found), flush=True)
    print(part, "median", _figures({key: statistics.median(one[key] for one in ended) for key in ended[0]}), flush=True)


def _figures(found: Mapping[str, float]) -> str:
    return " ".join(f"{key}={value:.2f}" for key, value in found.items())
