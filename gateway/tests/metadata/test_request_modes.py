"""The modes in which groups consume topics survive a restart, in Apache RocketMQ's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import RequestRefused
from gateway.metadata.request_modes import RequestModes
from wire.bodies.pop import MessageRequestMode
from wire.codes import ResponseCode

MODE = MessageRequestMode("orders", "mail", "POP", 3)


def loaded(path: Path) -> RequestModes:
    modes = RequestModes(path=path)
    modes.load()
    return modes


def test_what_is_set_is_known_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "messageRequestMode.json"
    modes = loaded(path)
    assert modes.get("orders", "mail") is None
    modes.put(MODE)
    modes.persist()
    assert loaded(path).get("orders", "mail") == MODE
    assert loaded(path).all() == {"orders": {"mail": MODE}}


def test_the_last_save_writes_what_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "messageRequestMode.json"
    modes = loaded(path)
    modes.put(MODE)
    modes.persist_now()
    assert loaded(path).get("orders", "mail") == MODE


def test_the_file_of_apache_rocketmq_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "messageRequestMode.json"
    path.write_text(
        '{"messageRequestModeMap":{"orders":{"mail":{"consumerGroup":"mail","mode":"POP","popShareQueueNum":3,'
        '"topic":"orders"}}}}'
    )
    assert loaded(path).get("orders", "mail") == MODE


def test_one_mode_too_many_is_refused(tmp_path: Path) -> None:
    modes = RequestModes(path=tmp_path / "file", max_modes=1)
    modes.put(MODE)
    modes.put(MessageRequestMode("orders", "mail", "PULL"))
    with pytest.raises(RequestRefused) as refused:
        modes.put(MessageRequestMode("orders", "shop", "POP"))
    assert refused.value.code == ResponseCode.SYSTEM_BUSY


def test_a_slaves_modes_are_the_masters_or_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "messageRequestMode.json"
    modes = RequestModes(path=path, max_modes=2)
    modes.put(MessageRequestMode("old", "mail", "POP", 3))
    modes.follow({"orders": {"mail": MODE}})
    assert loaded(path).all() == modes.all() == {"orders": {"mail": MODE}}
    with pytest.raises(RequestRefused, match="2 request modes"):
        modes.follow({"orders": {"a": MODE, "b": MODE, "c": MODE}})
    assert modes.all() == {"orders": {"mail": MODE}}
