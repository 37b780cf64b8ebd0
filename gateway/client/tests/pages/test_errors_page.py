"""The page about errors names all of them, and says of trying again what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gateway.client

PAGE = Path(__file__).parents[4] / "docs" / "python-client" / "errors.md"
ERRORS = [
    error
    for name in gateway.client.__all__
    if name not in ("aio", "RocketMQError")
    and issubclass(error := getattr(gateway.client, name), gateway.client.RocketMQError)
]
WORDS = {True: "yes", False: "no"}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_is_in_the_table_with_what_it_says_of_trying_again(error: type[gateway.client.RocketMQError]) -> None:
    (row,) = re.findall(rf"^\| (?:↳ )?`{error.__name__}`.*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    *_, retriable, outcome_unknown = (cell.strip() for cell in row.strip("|").split("|"))
    if isinstance(error.retriable, bool):
        assert retriable == WORDS[error.retriable]
    if "its field" not in outcome_unknown:
        assert outcome_unknown == WORDS[error.outcome_unknown]
