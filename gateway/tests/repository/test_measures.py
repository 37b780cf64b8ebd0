"""The figures of ``docs.measure`` stay within their limits; the lines, which grow with the product, are not judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.measure import Figure, figures

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "figure", [figure for figure in figures(ROOT) if figure.title != "lines"], ids=lambda figure: figure.title
)
def test_the_product_stays_easy_to_read(figure: Figure) -> None:
    assert figure.value <= figure.limit, "\n".join(f"{place.amount} {place.what}" for place in figure.places)
