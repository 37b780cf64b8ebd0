"""A declaration reads texts strictly and says what it expected."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.settings.declare import (
    Declaration,
    Range,
    declarations,
    environment_name,
    machine_setting,
    setting,
    text_of,
    with_home,
)


class Colour(StrEnum):
    RED = "RED"
    BLUE = "BLUE"


@dataclass(frozen=True, kw_only=True)
class Sample:
    switch: bool = setting(True, "switch", "A switch.")
    count: int = setting(3, "countOfThings", "A count.", Range(1, 10, "ms"))
    ratio: float = setting(0.5, "ratio", "A ratio.", within=Range(0))
    name: str = setting("x", "gateway.name", "A name.", within=lambda text: None if text == "x" else "x")
    colour: Colour = setting(Colour.RED, "colour", "A colour.")
    place: Path = machine_setting(Path, lambda: Path("/made"), "place", "A place.")


def declared(key: str) -> Declaration:
    return declarations(Sample)[key]


def test_declarations_are_found_by_key_in_order_with_their_attribute() -> None:
    keys = ["switch", "countOfThings", "ratio", "gateway.name", "colour", "place"]
    assert list(declarations(Sample)) == keys
    assert declared("countOfThings").attribute == "count"


def test_defaults_are_ordinary_dataclass_defaults() -> None:
    sample = Sample()
    assert (sample.switch, sample.count, sample.place) == (True, 3, Path("/made"))


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("switch", "false", False),
        ("switch", " TRUE ", True),
        ("countOfThings", "10", 10),
        ("countOfThings", "+1", 1),
        ("ratio", "0.25", 0.25),
        ("ratio", "2", 2.0),
        ("gateway.name", " x ", "x"),
        ("colour", "blue", Colour.BLUE),
        ("place", "/a/b", Path("/a/b")),
    ],
)
def test_a_good_text_is_read(key: str, text: str, value: object) -> None:
    assert declared(key).read(text) == value


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("switch", "yes", "true or false"),
        ("switch", "", "true or false"),
        ("countOfThings", "ten", "an integer from 1 to 10 (ms)"),
        ("countOfThings", "0", "an integer from 1 to 10 (ms)"),
        ("countOfThings", "11", "an integer from 1 to 10 (ms)"),
        ("countOfThings", "1_0", "an integer from 1 to 10 (ms)"),
        ("countOfThings", "٣", "an integer from 1 to 10 (ms)"),
        ("countOfThings", "1.0", "an integer from 1 to 10 (ms)"),
        ("countOfThings", "9" * 5_000, "an integer from 1 to 10 (ms)"),
        ("ratio", "-1", "a number, at least 0"),
        ("ratio", "nan", "a number, at least 0"),
        ("gateway.name", "y", "x"),
        ("colour", "green", "RED or BLUE"),
        ("place", "  ", "a path"),
    ],
)
def test_a_bad_text_is_refused_with_what_was_expected(key: str, text: str, expected: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (the whole text is compared)
        declared(key).read(text)
    assert str(refused.value) == expected


def test_a_range_of_one_value_says_so() -> None:
    assert Declaration(key="k", kind=int, sentence="", within=Range(0, 0)).expected == "an integer, 0 only"


def test_a_relative_path_is_made_absolute() -> None:
    assert declared("place").read("var") == Path.cwd() / "var"


def test_own_keys_are_told_from_those_of_apache() -> None:
    assert declared("gateway.name").is_own
    assert not declared("ratio").is_own


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("flushDiskType", "ROCKETMQ_GATEWAY_FLUSH_DISK_TYPE"),
        ("gateway.nameserverPort", "ROCKETMQ_GATEWAY_NAMESERVER_PORT"),
        ("brokerIP1", "ROCKETMQ_GATEWAY_BROKER_IP1"),
    ],
)
def test_each_key_has_an_environment_variable(key: str, name: str) -> None:
    assert environment_name(key) == name
    assert Declaration(key=key, kind=str, sentence="").environment == name


@pytest.mark.parametrize("text", ["$HOME/store", "${HOME}/store", "${user.home}/store", "~/store"])
def test_the_home_directory_is_filled_in(text: str) -> None:
    assert with_home(text) == f"{Path.home()}/store"


@pytest.mark.parametrize("text", ["/a/~/b", "$HOMER/x", "a~"])
def test_nothing_else_is_filled_in(text: str) -> None:
    assert with_home(text) == text


@given(st.one_of(st.booleans(), st.integers(min_value=1, max_value=10), st.sampled_from(Colour)))
def test_every_value_reads_back_from_its_text(value: bool | int | Colour) -> None:
    key = {bool: "switch", int: "countOfThings", Colour: "colour"}[type(value)]
    assert declared(key).read(text_of(value)) == value
