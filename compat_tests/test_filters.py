"""SQL92 filters: the same expressions over the same messages select the same ones as Apache RocketMQ selects.

The values come from Java's own evaluation (`sql92_values.json`, which the unit tests compare in full). Here stock
clients pull with each of the expressions, and the control shows that its broker selects by them too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests.environment import REPOSITORY
from compat_tests.scenarios import Scene

VALUES: Any = json.loads(Path(REPOSITORY, "gateway/tests/delivery/filters/sql92_values.json").read_text())
MESSAGES: Sequence[dict[str, str]] = VALUES["properties"]
SELECTED: dict[str, list[int]] = {
    expression: [number for number, letter in enumerate(letters) if letter == "T"]
    for expression, letters in VALUES["values"].items()
}
REFUSED: dict[str, str] = VALUES["refused"]
STARTED = (
    "a = 5",
    "a # 5",
    "a > 'x'",
    "a = NULL",
    "5",
    "a IN (5)",
    "a BETWEEN 5 AND 3",
    "1e400 = a",
    "(a = 5",
    "a = 5)",
)
"""Expressions a push consumer is started with; starting one takes a tenth of a second."""
SUBSCRIPTION_PARSE_FAILED = 23
# A good half of the messages, by numbers, texts and what is missing.
EXPRESSION = "(a IS NULL OR a IN ('5', 'abc', 'true')) AND NOT (TAGS IS NOT NULL AND TAGS = 'TagB') OR b STARTSWITH '0'"


def lines(rows: Sequence[str]) -> str:
    return "\n".join(row.replace("\n", "\r") for row in rows)  # a line's end like any other to the parser


def send(scene: Scene, topic: str) -> None:
    rows = ["\t".join(f"{name}={value}" for name, value in each.items()) for each in MESSAGES]
    assert scene.run("filter-send", topic=topic, group=f"p_{topic}", messages=lines(rows))["sent"] == len(MESSAGES)


def is_control(scene: Scene) -> bool:
    return scene.peer.name.startswith("rocketmq-")


def table(scene: Scene, topic: str, expressions: Sequence[str]) -> dict[str, str]:
    """Return, by expression, the numbers of the messages that pulls get, or the code of the refusal."""
    got = scene.run("filter-table", topic=topic, group=f"g_{topic}", expressions=lines(expressions))
    return dict(zip(expressions, got.text("table").split("\n"), strict=True))


def test_every_expression_selects_what_java_selects(scene: Scene) -> None:
    topic = scene.topic(queues=1)
    send(scene, topic)
    wanted = {expression: ",".join(map(str, numbers)) for expression, numbers in SELECTED.items()}
    assert table(scene, topic, list(wanted)) == wanted


def test_what_is_no_expression_is_refused_by_a_pull(scene: Scene) -> None:
    """Apache RocketMQ 5.5.0 gives out everything instead: it compiles, logs the error and goes on without a filter."""
    topic = scene.topic(queues=1)
    send(scene, topic)
    answer = ",".join(map(str, range(len(MESSAGES)))) if is_control(scene) else f"!{SUBSCRIPTION_PARSE_FAILED}"
    assert table(scene, topic, list(REFUSED)) == dict.fromkeys(REFUSED, answer)


def test_what_is_no_expression_keeps_a_push_consumer_from_starting(scene: Scene) -> None:
    topic = scene.topic(queues=1)
    got = scene.run("filter-check", topic=topic, group=f"c_{topic}", expressions=lines(STARTED))
    codes = dict(zip(STARTED, map(int, got.text("codes").split("\n")), strict=True))
    assert codes == {each: SUBSCRIPTION_PARSE_FAILED if each in REFUSED else 0 for each in STARTED}
    for expression, text in zip(STARTED, got.text("texts").split("\n"), strict=True):
        sentence = REFUSED.get(expression, "")
        if not sentence.startswith("Encountered"):  # which names Java's tokens
            assert sentence in text


def test_consumers_get_what_their_expression_selects_and_get_it_again_when_they_fail(scene: Scene) -> None:
    topic = scene.topic(queues=1)
    selected = [0, 1, 4, 5, 12, 14]
    consuming = [
        scene.start(
            "filter-consume",
            topic=topic,
            group=f"{api}_{topic}",
            expression=EXPRESSION,
            api=api,
            failing=api == "push",
            count=len(selected) * (2 if api == "push" else 1),
        )
        for api in ("push", "lite")
    ]
    send(scene, topic)
    pushed, pulled = (each.result().json("numbers") for each in consuming)
    assert pulled == {str(number): 1 for number in selected}
    assert pushed == {str(number): 2 for number in selected}
