"""Texts of topics that are made once."""

from __future__ import annotations

import pytest

from gateway.metadata.saved.saved_table import KnownTexts
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.topics import DataVersion, TopicConfig
from wire.disk.config_json import ConsumerOffsetsFile, TopicsFile

TOPICS = {
    "orders": TopicConfig("orders", 8, 8, order=True, attributes={"+message.type": "FIFO"}),
    "bills": TopicConfig("bills", extra={"added": {"later": [1, "ü"]}}),
}


def test_a_file_and_a_registration_with_known_texts_are_those_without() -> None:
    version = DataVersion(counter=3)
    assert TopicsFile(KnownTexts(2).of(TOPICS), version).build() == TopicsFile(TOPICS, version).build()
    plain = RegisterBrokerBody(version, TOPICS).build(compressed=False)
    assert RegisterBrokerBody(version, KnownTexts(None).of(TOPICS)).build(compressed=False) == plain


def test_a_file_of_offsets_with_known_texts_is_that_without() -> None:
    offsets = {"orders@readers": {1: 5, 0: 7}, "bills@readers": dict[int, int]()}
    assert ConsumerOffsetsFile(KnownTexts(2).of(offsets)).build() == ConsumerOffsetsFile(offsets).build()


def test_a_text_is_made_once_for_each_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    to_json = TopicConfig.to_json

    def counting(config: TopicConfig) -> dict[str, object]:
        made.append(config.topic_name)
        return to_json(config)

    monkeypatch.setattr(TopicConfig, "to_json", counting)
    texts = KnownTexts(2)
    texts.of(TOPICS)
    texts.of(dict(TOPICS))
    assert made == ["orders", "bills"]
    changed = {**TOPICS, "bills": TopicConfig("bills", 1, 1)}
    assert '"readQueueNums":1,' in texts.of(changed)["bills"]
    assert made == ["orders", "bills", "bills"]
    assert list(texts.of({"orders": TOPICS["orders"]})) == ["orders"]
    texts.of(TOPICS)
    assert made == ["orders", "bills", "bills", "bills"], "what was deleted is forgotten"
