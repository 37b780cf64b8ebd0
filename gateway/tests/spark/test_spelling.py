"""Hints for misspelt words."""

from __future__ import annotations

from gateway.spark.spelling import did_you_mean


def test_a_near_word_is_named_as_it_is_written() -> None:
    assert did_you_mean("FAILONDATALOS", ["failOnDataLoss", "assign"]) == "; did you mean 'failOnDataLoss'?"


def test_nothing_is_guessed_when_nothing_is_near() -> None:
    assert did_you_mean("xyz", ["failOnDataLoss"]) == ""
