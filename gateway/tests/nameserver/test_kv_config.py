"""The key-value configuration and its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError, RequestRefused
from gateway.in_thread import in_this_thread
from gateway.nameserver import kv_config as kv_config_module
from gateway.nameserver.kv_config import KvConfig
from gateway.tests.remoting.conversation import outcome

NAMESPACE = "ORDER_TOPIC_CONFIG"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def failing(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """A thread in which no disk can be written."""
    done(OSError("no space left on device"))


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


def test_entries_and_values_have_limits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config_module, "MAX_ENTRIES", 1)
    monkeypatch.setattr(kv_config_module, "MAX_VALUE_CHARACTERS", 8)
    config = KvConfig(path, in_this_thread)
    assert outcome(config.put("n", "a", "1")) == [None]
    assert outcome(config.put("n", "a", "2")) == [None]
    for refused in (outcome(config.put("n", "b", "1")), outcome(config.put("n", "a", "123456789"))):
        assert isinstance(refused[0], RequestRefused)
    outcome(config.delete("n", "a"))
    assert outcome(config.put("n", "b", "1")) == [None]


def test_a_file_that_cannot_be_read_stops_the_start(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("no json")
    with pytest.raises(GatewayError, match="repair or remove the file"):
        KvConfig(path, in_this_thread)


def test_the_file_of_an_apache_name_server_is_read(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:8"}}}')
    assert KvConfig(path, in_this_thread).get(NAMESPACE, "orders") == "broker-a:8"
