from __future__ import annotations

import xml.etree.ElementTree as ET

from gateway.spark.pipelines.charts import Bar, legend, lying_bars, upright_bars

COLOURS = {"committed": "#0a0", "given_up": "#a00"}
BARS = [Bar("<day one>", {"committed": 30, "given_up": 10}), Bar("two", {"committed": 20})]


def rects(svg: str) -> list[dict[str, float]]:
    root = ET.fromstring(svg)
    names = ("x", "y", "width", "height")
    return [{name: float(found.attrib[name]) for name in names} for found in root.iter("rect")]


def test_upright_bars_stand_on_each_other_and_are_as_high_as_their_values() -> None:
    first, second, third = rects(upright_bars(BARS, COLOURS))
    assert first["height"] == 3 * second["height"]
    assert abs(second["y"] + second["height"] - first["y"]) < 0.2
    assert third["height"] < first["height"]
    assert third["x"] > first["x"] == second["x"]


def test_lying_bars_have_their_names_and_totals() -> None:
    svg = lying_bars(BARS, COLOURS)
    texts = [found.text for found in ET.fromstring(svg).iter("text")]
    assert texts == ["<day one>", "40", "two", "20"]
    first, second, third = rects(svg)
    assert abs(first["x"] + first["width"] - second["x"]) < 0.2
    assert third["y"] > first["y"] == second["y"]


def test_plots_of_nothing_and_of_zeros_are_plots() -> None:
    assert rects(upright_bars([], COLOURS)) == []
    assert rects(lying_bars([Bar("none", {"committed": 0})], COLOURS))[0]["width"] == 0


def test_many_bars_have_few_labels() -> None:
    bars = [Bar(str(number), {"committed": 1}) for number in range(200)]
    assert len(list(ET.fromstring(upright_bars(bars, COLOURS)).iter("text"))) <= 14


def test_the_legend_names_each_series() -> None:
    assert "given up" in legend(COLOURS)
    assert "#a00" in legend(COLOURS)
