"""The figures of ``docs.measure`` stay within their limits; the lines, which grow with the product, are not judged."""

from __future__ import annotations

from pathlib import Path

from docs.measure import figures

ROOT = Path(__file__).parents[3]


def test_the_product_stays_easy_to_read() -> None:
    # Measured here, not while tests are collected: each worker would do it, and it takes seconds.
    over = [figure for figure in figures(ROOT) if figure.title != "lines" and figure.value > figure.limit]
    told = [f"{figure.title}: {place.amount} {place.what}" for figure in over for place in figure.places]
    assert not over, "\n".join(told)
