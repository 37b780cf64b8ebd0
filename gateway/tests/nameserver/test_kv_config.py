"""The key-value configuration and its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError, RequestRefused
from gateway.in_thread import Failed, in_this_thread
from gateway.nameserver.kv_config import KvConfig, KvLimits
from gateway.tests.remoting.conversation import outcome

NAMESPACE = "ORDER_TOPIC_CONFIG"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def failing(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """A thread in which no disk can be written."""
    done(Failed(OSError("no space left on device")))


def test_a_value_is_kept_in_the_file(path: Path) -> None:
    config = KvConfig(path, in_this_thread)
    assert outcome(config.put(NAMESPACE, "orders", "broker-a:4")) == [None]
    assert config.get(NAMESPACE, "orders") == "broker-a:4"
    again = KvConfig(path, in_this_thread)
    assert again.namespace(NAMESPACE) == {"orders": "broker-a:4"}


def test_a_deleted_value_is_gone_from_the_file(path: Path) -> None:
    config = KvConfig(path, in_this_thread)
    outcome(config.put(NAMESPACE, "orders", "broker-a:4"))
    assert outcome(config.delete(NAMESPACE, "orders")) == [None]
    assert KvConfig(path, in_this_thread).get(NAMESPACE, "orders") is None


def test_deleting_what_is_not_there_writes_nothing(path: Path) -> None:
    assert outcome(KvConfig(path, failing).delete(NAMESPACE, "orders")) == [None]
    assert not path.exists()


def test_what_was_never_written_is_none(path: Path) -> None:
    config = KvConfig(path, in_this_thread)
    assert config.get(NAMESPACE, "orders") is None
    assert config.namespace(NAMESPACE) is None


def test_a_change_is_answered_only_when_it_is_on_disk(path: Path) -> None:
    waiting: list[Callable[[], None]] = []

    def slow(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        waiting.append(lambda: done(work()))

    config = KvConfig(path, slow)
    first, second = outcome(config.put("n", "a", "1")), outcome(config.put("n", "b", "2"))
    assert (first, second, path.exists()) == ([], [], False)
    waiting.pop()()
    assert (first, second, path.exists()) == ([None], [], True)
    waiting.pop()()
    assert second == [None]
    assert KvConfig(path, in_this_thread).namespace("n") == {"a": "1", "b": "2"}


def test_a_disk_that_cannot_be_written_is_told(path: Path) -> None:
    (refused,) = outcome(KvConfig(path, failing).put("n", "a", "1"))
    assert isinstance(refused, RequestRefused)
    assert "not on disk: no space left on device" in refused.remark


def test_point_8_a_deletion_that_did_not_reach_the_disk_is_not_answered_as_done_the_next_time(path: Path) -> None:
    fault: list[Exception] = []

    def at_once(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(Failed(fault[0]) if fault else work())

    config = KvConfig(path, at_once)
    assert outcome(config.put("n", "a", "1")) == [None]
    fault.append(OSError("no space left on device"))
    for _ in range(2):
        assert "not on disk: no space left on device" in refusal_of(outcome(config.delete("n", "a")))
    fault.clear()
    assert outcome(config.delete("n", "a")) == [None]
    assert KvConfig(path, in_this_thread).get("n", "a") is None


def refusal_of(result: list[Any]) -> str:
    (refused,) = result
    assert isinstance(refused, RequestRefused), "not refused"
    return refused.remark


def test_the_number_of_values_has_a_limit(path: Path) -> None:
    config = KvConfig(path, in_this_thread, KvLimits(entries=1))
    assert outcome(config.put("n", "a", "1")) == [None]
    assert outcome(config.put("n", "a", "2")) == [None]
    assert "limit of 1 values" in refusal_of(outcome(config.put("n", "b", "1")))
    outcome(config.delete("n", "a"))
    assert outcome(config.put("n", "b", "1")) == [None]


def test_an_emptied_namespace_makes_room_for_another(path: Path) -> None:
    config = KvConfig(path, in_this_thread, KvLimits(namespaces=2))
    for number in range(10):
        assert outcome(config.put(f"n{number}", "a", "1")) == [None]
        assert outcome(config.delete(f"n{number}", "a")) == [None]
        assert config.namespace(f"n{number}") is None
    assert b'"n' not in path.read_bytes()
    outcome(config.put("n1", "a", "1"))
    outcome(config.put("n2", "a", "1"))
    assert "limit of 2 namespaces" in refusal_of(outcome(config.put("n3", "a", "1")))
    assert outcome(config.put("n2", "b", "1")) == [None]


@pytest.mark.parametrize(
    ("namespace", "key", "value", "remark"),
    [
        ("n" * 9, "k", "v", "the namespace takes 9 bytes, the limit is 8"),
        ("n", "k" * 9, "v", "the key takes 9 bytes, the limit is 8"),
        ("n", "k", "v" * 17, "the value takes 17 bytes, the limit is 16"),
        ("n", "k", "ö" * 9, "the value takes 18 bytes, the limit is 16"),
        ("n", "k", "\x01" * 3, "the value takes 18 bytes, the limit is 16"),
        ("n", "k", "\ud800", "the value is no Unicode text"),
    ],
)
def test_names_and_values_are_limited_in_bytes_of_the_file(
    path: Path, namespace: str, key: str, value: str, remark: str
) -> None:
    config = KvConfig(path, in_this_thread, KvLimits(name_bytes=8, value_bytes=16))
    assert remark in refusal_of(outcome(config.put(namespace, key, value)))
    assert not path.exists()
    assert outcome(config.put("n" * 8, "k" * 8, "v" * 16)) == [None]


def test_a_namespace_that_is_full_takes_smaller_values_and_no_more(path: Path) -> None:
    config = KvConfig(path, in_this_thread, KvLimits(namespace_bytes=40))
    assert outcome(config.put("n", "a", "v" * 20)) == [None]
    assert "may have 40 bytes, 27 are there" in refusal_of(outcome(config.put("n", "b", "v" * 20)))
    assert outcome(config.put("n", "a", "v" * 5)) == [None]
    assert outcome(config.put("n", "b", "v" * 20)) == [None]


def test_a_greedy_namespace_leaves_room_for_others(path: Path) -> None:
    config = KvConfig(path, in_this_thread, KvLimits(total_bytes=1_000))
    refused = 0
    for number in range(50):
        refused += outcome(config.put("greedy", str(number), "v" * 50)) != [None]
    assert refused
    assert outcome(config.put(NAMESPACE, "orders", "broker-a:4")) == [None]
    assert len(path.read_bytes()) < 1_100


def test_a_file_beyond_the_limits_is_read_and_can_only_shrink(path: Path) -> None:
    outcome(KvConfig(path, in_this_thread).put(NAMESPACE, "orders", "v" * 100))
    config = KvConfig(path, in_this_thread, KvLimits(namespace_bytes=50))
    assert config.get(NAMESPACE, "orders") == "v" * 100
    assert "112 bytes, an answer may have 50" in refusal_of([refused_by(lambda: config.namespace(NAMESPACE))])
    assert "may have 50 bytes" in refusal_of(outcome(config.put(NAMESPACE, "others", "x")))
    assert outcome(config.put(NAMESPACE, "orders", "v")) == [None]
    assert config.namespace(NAMESPACE) == {"orders": "v"}


def refused_by(call: Callable[[], object]) -> RequestRefused:
    with pytest.raises(RequestRefused) as refused:
        call()
    return refused.value


def test_many_changes_during_a_write_share_the_next_one(path: Path) -> None:
    works: list[Callable[[], None]] = []
    config = KvConfig(path, lambda work, done: works.append(lambda: done(work())))
    answers = [outcome(config.put("n", str(number), "v")) for number in range(1_000)]
    writes = 0
    while works:
        works.pop()()
        writes += 1
    assert writes == 2
    assert all(answer == [None] for answer in answers)
    assert len(KvConfig(path, in_this_thread).namespace("n") or {}) == 1_000


def test_a_file_that_cannot_be_read_stops_the_start(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("no json")
    with pytest.raises(GatewayError, match="repair or remove the file"):
        KvConfig(path, in_this_thread)


def test_the_file_of_an_apache_name_server_is_read(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:8"}}}')
    assert KvConfig(path, in_this_thread).get(NAMESPACE, "orders") == "broker-a:8"
