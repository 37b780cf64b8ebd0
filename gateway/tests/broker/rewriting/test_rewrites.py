"""A message that was stored again is delivered as Apache RocketMQ 5.5.0 delivers it, except where listed."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

from gateway.tests.broker.rewriting.rewrites import WAYS, Row, recorded
from gateway.tests.broker.rewriting.rewrites_here import delivered_here

SCRIPT = Path(__file__).parents[4] / "docs" / "rewritten_messages.py"
MEASURE = "5.5.0"
LOST_BY_APACHE = "old client's retry of a transactional message"

Differences = dict[str, tuple[str | int | None, str | int | None]]
"""Name of a property or field: what Apache RocketMQ has, what we have. ``docs/differences.md`` says why."""
WAIT_AS_SENT: Differences = {"WAIT": ("false", "true")}
WHERE_IT_WAITED: Differences = {"preparedTransactionOffset": ("0", "set")}
AS_BEFORE_5_5: Differences = {"REAL_TOPIC": (None, "(topic)"), "REAL_QID": (None, "0")}
PRODUCER: Differences = {"bornHost": ("changed", "kept")}
DELIBERATE: dict[str, Differences] = {
    "time in milliseconds": WHERE_IT_WAITED,
    "time in seconds": WHERE_IT_WAITED,
    "time as a date": WHERE_IT_WAITED,
    "committed": AS_BEFORE_5_5,
    "sent back": WAIT_AS_SENT,
    "sent back twice": WAIT_AS_SENT,
    "level, sent back": WAIT_AS_SENT,
    "time, sent back": WAIT_AS_SENT,
    "committed, sent back": WAIT_AS_SENT,
    "dead letter": WAIT_AS_SENT,
    "dead letter after a retry": WAIT_AS_SENT,
    "dead letter after a level": WAIT_AS_SENT,
    "dead letter after a commit": {**WAIT_AS_SENT, **AS_BEFORE_5_5},
    "pop retry": PRODUCER,
    "pop retry after a level": {**PRODUCER, "REAL_TOPIC": ("%RETRY%(group)_(topic)", "(topic)")},
    "pop retry after a time": PRODUCER,
    "pop retry after a commit": {**PRODUCER, **AS_BEFORE_5_5},
}


def pairs(row: Row) -> dict[str, str | int]:
    """All that is compared, by name."""
    return {**{name: value for name, value in row.items() if name != "properties"}, **row["properties"]}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    return delivered_here(tmp_path_factory.mktemp("rewrites") / "store")


@pytest.mark.parametrize("way", WAYS)
def test_a_rewritten_message_is_delivered_as_by_apache_rocketmq(here: dict[str, Row], way: str) -> None:
    if way == LOST_BY_APACHE:
        assert recorded()[MEASURE][way] == {"refused": "never delivered"}
        assert here[way]["properties"]["TRAN_MSG"] == "true"
        return
    theirs, ours = pairs(recorded()[MEASURE][way]), pairs(here[way])
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    assert {name: (theirs.get(name), ours.get(name)) for name in names} == DELIBERATE.get(way, {})


def test_a_message_of_a_delay_level_shows_its_level_to_its_consumer(here: dict[str, Row]) -> None:
    for version, rows in {**recorded(), "here": here}.items():
        assert rows["level"]["properties"]["DELAY"] == "1", version


def test_the_page_is_what_its_script_writes(here: dict[str, Row]) -> None:
    script = run_path(str(SCRIPT))
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"](here), "run: python docs/rewritten_messages.py"
