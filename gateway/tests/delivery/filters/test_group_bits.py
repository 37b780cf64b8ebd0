"""Bit maps of messages and the groups they are made for: what a group may pass over, and what is never passed over."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from gateway.delivery.filters.bloom import BloomShape
from gateway.delivery.filters.group_bits import FORGOTTEN_AFTER_MS, GroupBitMaps
from gateway.delivery.filters.sql92 import sql92_filter
from gateway.delivery.filters.subscribed import SubscribedFilters
from gateway.tests.store import apache_directory
from wire.bodies.subscriptions import SubscriptionData

BORN_MS = 1_000_000


class Made:
    """A table with a clock and consumers set by hand."""

    def __init__(self, directory: Path, *, limit: int = 10_000, shape: BloomShape | None = None) -> None:
        self.now_ms = BORN_MS
        self.live: set[tuple[str, str]] = set()
        self.table = GroupBitMaps(
            path=directory / "consumerFilter.json",
            shape=shape or BloomShape(),
            now_ms=lambda: self.now_ms,
            is_live=lambda group, topic: (group, topic) in self.live,
            limit=limit,
        )

    def register(self, group: str, expression: str, topic: str = "T", version: int = 1) -> None:
        self.live.add((group, topic))
        wanted = SubscriptionData(topic, expression, sub_version=version, expression_type="SQL92")
        self.table.register(group, wanted, sql92_filter(expression))

    def takes(self, group: str, expression: str, stored_at_ms: int, bits: bytes, topic: str = "T") -> bool | None:
        accepts = self.table.accepts(group, topic, expression)
        return None if accepts is None else accepts(stored_at_ms, bits)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_a_bit_map_has_the_bits_of_the_groups_that_take_the_message(made: Made) -> None:
    made.register("small", "n < 20")
    made.register("large", "n >= 20")
    bits = made.table.of_message("T", {"n": "5"})
    assert len(bits) == 14
    assert made.takes("small", "n < 20", BORN_MS + 1, bits) is True
    assert made.takes("large", "n >= 20", BORN_MS + 1, bits) is False
    assert made.table.of_message("T", {}) == bytes(14)


def test_a_topic_without_expressions_has_no_bit_maps(made: Made) -> None:
    made.register("small", "n < 20")
    assert made.table.of_message("other", {"n": "5"}) == b""


@pytest.mark.parametrize(
    ("stored_at_ms", "bits"),
    [
        (BORN_MS, bytes(14)),  # perhaps just before the group came
        (BORN_MS - 1, bytes(14)),
        (BORN_MS + 1, b""),
        (BORN_MS + 1, bytes(13)),  # made with other settings
        (BORN_MS + 1, bytes(15)),
    ],
)
def test_a_bit_map_that_cannot_tell_lets_the_message_through(made: Made, stored_at_ms: int, bits: bytes) -> None:
    made.register("large", "n >= 20")
    assert made.takes("large", "n >= 20", stored_at_ms, bits) is True


def test_another_expression_than_the_one_registered_has_no_bits(made: Made) -> None:
    made.register("g", "n >= 20")
    assert made.takes("g", "n >= 21", BORN_MS + 1, bytes(14)) is None
    assert made.takes("other", "n >= 20", BORN_MS + 1, bytes(14)) is None
    assert made.takes("g", "n >= 20", BORN_MS + 1, bytes(14), topic="U") is None


def test_a_changed_expression_is_born_anew_and_the_same_one_is_not(made: Made) -> None:
    made.register("g", "n >= 20")
    made.now_ms += 10
    made.register("g", "n >= 20", version=2)
    assert made.takes("g", "n >= 20", BORN_MS + 5, bytes(14)) is False
    made.register("g", "n >= 30", version=3)
    assert made.takes("g", "n >= 30", BORN_MS + 10, bytes(14)) is True
    assert made.takes("g", "n >= 30", BORN_MS + 11, bytes(14)) is False
    made.now_ms += 10
    made.register("g", "n >= 20", version=4)  # and back: nobody made bits for it meanwhile
    assert made.takes("g", "n >= 20", BORN_MS + 11, bytes(14)) is True


def test_expressions_are_saved_as_apache_rocketmq_saves_them(made: Made, tmp_path: Path) -> None:
    made.register("g_small", "n < 20", topic="Ext", version=7)
    made.table.persist_now()
    text = (tmp_path / "consumerFilter.json").read_text()
    assert json.loads(text) == {
        "filterDataByTopic": {
            "Ext": {
                "groupFilterData": {
                    "g_small": {
                        "bloomFilterData": {"bitNum": 112, "bitPos": [95, 77, 106]},
                        "bornTime": BORN_MS,
                        "clientVersion": 7,
                        "consumerGroup": "g_small",
                        "dead": False,
                        "deadTime": 0,
                        "expression": "n < 20",
                        "expressionType": "SQL92",
                        "topic": "Ext",
                    }
                },
                "topic": "Ext",
            }
        }
    }


def test_what_apache_rocketmq_saved_goes_on(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(apache_directory.__file__).with_name("apache_extension.zip")) as packed:
        text = packed.read("config/consumerFilter.json")
    (tmp_path / "consumerFilter.json").write_bytes(text)
    made = Made(tmp_path)
    made.now_ms = 1_795_331_700_000
    made.table.load()
    bits = bytes.fromhex("408000000400000000000000000000")[:14]  # of a message with n = 20
    assert made.takes("g_small", "n < 20", 1_795_331_588_373, bits, topic="Ext") is False
    assert made.takes("g_large", "n >= 20", 1_795_331_588_373, bits, topic="Ext") is True
    assert made.table.of_message("Ext", {"n": "500"}) == bits


def test_a_saved_expression_keeps_its_birth(made: Made, tmp_path: Path) -> None:
    made.register("g", "n >= 20")
    made.table.persist_now()
    again = Made(tmp_path)
    again.now_ms += 60_000
    again.table.load()
    again.register("g", "n >= 20")
    assert again.takes("g", "n >= 20", BORN_MS + 1, bytes(14)) is False


def test_after_a_kill_no_bit_map_from_before_is_believed(made: Made, tmp_path: Path) -> None:
    made.register("g", "n >= 20")
    made.table.persist_now()
    again = Made(tmp_path)
    again.now_ms += 60_000
    again.table.load()
    again.table.distrust()
    again.register("g", "n >= 20")
    assert again.takes("g", "n >= 20", again.now_ms, bytes(14)) is True
    assert again.takes("g", "n >= 20", again.now_ms + 1, bytes(14)) is False


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bitNum":112', '"bitNum":216'),
        ('"bitNum":112,', ""),
        ("[95,77,106]", "[95,77,107]"),
        ("[95,77,106]", "[95,77]"),
        ("n < 20", "n <"),
        ('"SQL92"', '"TAG"'),
        (f'"bornTime":{BORN_MS}', '"bornTime":0'),
    ],
)
def test_what_cannot_be_used_of_a_file_is_left_out(made: Made, tmp_path: Path, old: str, new: str) -> None:
    made.register("g_small", "n < 20", topic="Ext")
    made.register("g_other", "n > 2", topic="T")
    path = tmp_path / "consumerFilter.json"
    made.table.persist_now()
    text = "".join(line.strip() for line in path.read_text().splitlines())
    start = text.index('"Ext"')
    changed = text[:start] + text[start:].replace(old, new, 1)
    assert changed != text
    path.write_text(changed)
    again = Made(tmp_path)
    again.table.load()
    assert again.table.accepts("g_small", "Ext", "n < 20") is None
    assert again.table.accepts("g_other", "T", "n > 2") is not None


def test_other_settings_drop_what_was_saved_with_others(made: Made, tmp_path: Path) -> None:
    made.register("g", "n >= 20")
    made.table.persist_now()
    again = Made(tmp_path, shape=BloomShape(20, 64))
    again.table.load()
    assert again.table.accepts("g", "T", "n >= 20") is None


def test_bits_are_made_for_a_day_after_the_last_consumer_left(made: Made, tmp_path: Path) -> None:
    made.register("g", "n >= 20")
    made.live.clear()
    made.table.persist()
    entry = json.loads((tmp_path / "consumerFilter.json").read_text())["filterDataByTopic"]["T"]["groupFilterData"]["g"]
    assert (entry["dead"], entry["deadTime"]) == (True, BORN_MS)
    made.now_ms += FORGOTTEN_AFTER_MS
    made.table.persist()
    assert made.table.of_message("T", {"n": "20"}).strip(b"\x00")
    made.now_ms += 1
    made.table.persist()
    assert made.table.of_message("T", {"n": "20"}) == b""
    assert json.loads((tmp_path / "consumerFilter.json").read_text()) == {"filterDataByTopic": {}}


def test_a_group_that_comes_back_in_time_has_its_bits(made: Made, tmp_path: Path) -> None:
    made.register("g", "n >= 20")
    made.live.clear()
    made.table.persist()
    made.now_ms += FORGOTTEN_AFTER_MS - 1
    made.live.add(("g", "T"))
    made.table.persist()
    entry = json.loads((tmp_path / "consumerFilter.json").read_text())["filterDataByTopic"]["T"]["groupFilterData"]["g"]
    assert (entry["dead"], entry["deadTime"], entry["bornTime"]) == (False, 0, BORN_MS)


def test_a_forgotten_group_is_born_anew(made: Made) -> None:
    made.register("g", "n >= 20")
    made.live.clear()
    made.table.persist()
    made.now_ms += FORGOTTEN_AFTER_MS + 1
    made.table.persist()
    made.table.remember("g", SubscriptionData("T", "n >= 20", expression_type="SQL92"), sql92_filter("n >= 20"))
    assert made.takes("g", "n >= 20", BORN_MS + 1, bytes(14)) is True
    assert made.takes("g", "n >= 20", made.now_ms + 1, bytes(14)) is False


def test_a_forgotten_group_that_still_pulls_is_known_again(made: Made) -> None:
    filters, wanted = SubscribedFilters(made.table), SubscriptionData("T", "n >= 20", expression_type="SQL92")
    filters.register("g", [wanted])
    made.table.persist()
    made.now_ms += FORGOTTEN_AFTER_MS + 1
    made.table.persist()
    assert filters.by_bit_map("g", "T") is None
    filters.find("g", wanted, 0)
    assert filters.by_bit_map("g", "T") is not None


def test_groups_beyond_the_limit_have_no_bits(tmp_path: Path) -> None:
    made = Made(tmp_path, limit=1)
    made.register("first", "n >= 20")
    made.register("second", "n >= 20")
    made.register("first", "n >= 30")
    assert made.takes("first", "n >= 30", BORN_MS + 1, bytes(14)) is False
    assert made.takes("second", "n >= 20", BORN_MS + 1, bytes(14)) is None
