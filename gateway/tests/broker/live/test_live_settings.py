"""Settings changed by a request: all or nothing, and in force at once."""

from __future__ import annotations

import gc
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from gateway.broker.live_settings import LiveSettings
from gateway.broker.parts import BrokerParts
from gateway.errors import RequestRefused
from gateway.settings import Settings
from gateway.settings.declare import Declaration, Mark, Value, declarations, text_of
from gateway.tests.broker import whole_broker
from gateway.tests.broker.popping import POP, popping
from gateway.tests.broker.whole_broker import WholeBroker, pulling, small_settings
from gateway.tests.compiled import ROOT
from gateway.transaction.checks.verdict import Act, HalfFacts, verdict
from wire.codes import RequestCode, ResponseCode
from wire.headers.send import ConsumerSendMsgBackRequest

LIVE = [declaration for declaration in declarations(Settings).values() if Mark.LIVE in declaration.marks]
FOLLOWED = ("max_lite_subscription_count", "pop_check_points_limit", "broker_permission")
"""Settings that a part reads when it is made. ``BrokerParts`` has the part look again after a change."""


def test_a_change_is_written_into_the_settings_that_everybody_reads() -> None:
    settings, told = Settings(), list[int]()
    live = LiveSettings(settings, lambda: told.append(settings.broker_permission))
    live.change({"brokerPermission": "4", "listenPort": "10911", "fileReservedTime": "72"})
    live.change({"brokerPermission": "4"})
    assert live.current is settings
    assert (told, live.changes) == ([4], 1)


def another(declaration: Declaration, value: Value) -> str:
    """Return a valid text for a setting, with another meaning than its value."""
    if declaration.kind is bool:
        return text_of(not value)
    texts = [declaration.key, "05", "2", *map(str, range(40, 100)), "5000"]
    for text in texts:
        with suppress(ValueError):
            if declaration.read(text) != value:
                return text
    raise AssertionError(f"no other value for {declaration.key}")


@pytest.mark.parametrize("declaration", LIVE, ids=lambda declaration: declaration.key)
def test_a_running_broker_has_one_value_of_a_live_setting_and_reads_it(
    declaration: Declaration, tmp_path: Path
) -> None:
    broker = WholeBroker(tmp_path / "store")
    broker.conversation.dispatch.entries()  # now the rare requests are loaded, too
    text = another(declaration, getattr(broker.parts.settings, declaration.attribute))
    assert change(broker, f"{declaration.key}={text}".encode()) == ResponseCode.SUCCESS
    assert getattr(broker.parts.settings, declaration.attribute) == declaration.read(text)
    assert settings_within(broker.parts) == [broker.parts.settings], "a copy would keep the old value"
    assert re.search(rf"\b\w*(settings|self)\.{declaration.attribute}\b", product_text()), "nobody reads the setting"


def settings_within(start: object) -> list[Settings]:
    """Return every settings object that the objects of a broker refer to, by any way."""
    waiting, seen, found = [start], {id(start)}, list[Settings]()
    while waiting:
        for there in gc.get_referents(waiting.pop()):
            if id(there) in seen or isinstance(there, type | ModuleType | FrameType):
                continue
            seen.add(id(there))
            if isinstance(there, Settings):
                found.append(there)
            if not (isinstance(there, dict) and "__builtins__" in there):  # the names of a module
                waiting.append(there)
    return found


@cache
def product_text() -> str:
    files = (path for path in (ROOT / "gateway").rglob("*.py") if "tests" not in path.parts)
    return "\n".join(path.read_text() for path in files)


def test_no_part_takes_the_value_of_a_live_setting_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = {declaration.attribute for declaration in LIVE}
    taken: Counter[str] = Counter()
    watched = True
    opened = BrokerParts.open

    def read(settings: Settings, name: str) -> Any:
        if watched and name in attributes:
            taken[name] += 1
        return object.__getattribute__(settings, name)

    def open_unwatched(parts: BrokerParts) -> None:
        nonlocal watched
        watched = False
        opened(parts)
        watched = True

    made = small_settings(tmp_path / "store")
    monkeypatch.setattr(whole_broker, "small_settings", lambda _: made)
    monkeypatch.setattr(Settings, "__getattribute__", read, raising=False)
    monkeypatch.setattr(BrokerParts, "open", open_unwatched)
    WholeBroker(tmp_path / "store").conversation.dispatch.entries()
    assert taken == dict.fromkeys(FOLLOWED, 1)


@pytest.mark.parametrize(
    ("key", "value", "code", "reason"),
    [
        ("listenPort", "1", ResponseCode.NO_PERMISSION, "read at start only"),
        ("configBlackList", "", ResponseCode.NO_PERMISSION, "cannot be changed"),
        ("brokerPermission", "9", ResponseCode.INVALID_PARAMETER, "expected 2 \\(write\\)"),
        ("offsetCheckInSlave", "true", ResponseCode.INVALID_PARAMETER, "has no effect"),
        ("brokerPermision", "4", ResponseCode.INVALID_PARAMETER, "is no setting"),
        ("diskMaxUsedSpaceRatio", "101", ResponseCode.INVALID_PARAMETER, "an integer from 10 to 100"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_all_others(
    key: str, value: str, code: ResponseCode, reason: str
) -> None:
    told: list[None] = []
    live = LiveSettings(Settings(), lambda: told.append(None))
    with pytest.raises(RequestRefused, match=reason) as refused:
        live.change({"autoCreateTopicEnable": "false", key: value})
    assert refused.value.code is code
    assert told == []
    assert live.current.auto_create_topic_enable


def change(broker: WholeBroker, text: bytes) -> int:
    return broker.ask(broker.connect(), RequestCode.UPDATE_BROKER_CONFIG, body=text).code


def test_a_broker_can_be_drained_and_opened_again(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    broker.send(client)
    version = broker.parts.topics.data_version
    assert change(broker, b"brokerPermission=2\nautoCreateTopicEnable=false\n") == ResponseCode.SUCCESS
    assert broker.parts.topics.data_version != version
    pulled = broker.ask(client, RequestCode.PULL_MESSAGE, pulling())
    popped = broker.ask(client, POP, popping())
    polled = broker.ask(
        client, RequestCode.POLLING_INFO, fields={"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    )
    assert pulled.code == popped.code == polled.code == ResponseCode.NO_PERMISSION
    assert broker.send(client, "unknown").code == ResponseCode.TOPIC_NOT_EXIST
    assert change(broker, b"brokerPermission=4") == ResponseCode.SUCCESS
    assert broker.ask(client, RequestCode.PULL_MESSAGE, pulling()).code == ResponseCode.SUCCESS
    back = ConsumerSendMsgBackRequest(offset=0, group="group", delay_level=1)
    assert broker.ask(client, RequestCode.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.NO_PERMISSION
    shown = broker.ask(client, RequestCode.GET_BROKER_CONFIG)
    assert b"brokerPermission=4" in shown.body


def test_topics_are_made_by_sends_when_that_is_switched_on(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", auto_create_topic_enable=False)
    client = broker.connect()
    assert broker.send(client).code == ResponseCode.TOPIC_NOT_EXIST
    assert change(broker, b"autoCreateTopicEnable=true") == ResponseCode.SUCCESS
    assert broker.send(client).code == ResponseCode.SUCCESS


HOUR_MS = 3_600_000


def test_half_messages_are_given_up_at_the_age_at_which_files_are_deleted_now(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    assert change(broker, b"fileReservedTime=1") == ResponseCode.SUCCESS
    old = HalfFacts(stored_at_ms=0, due_at_ms=0, checks=0)
    settings = broker.parts.transactions.tables.settings
    assert verdict(old, settings, now_ms=HOUR_MS).act is not Act.DISCARD
    assert verdict(old, settings, now_ms=HOUR_MS + 1).act is Act.DISCARD


def test_text_that_is_no_configuration_is_refused(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    assert change(broker, b"brokerPermission") == ResponseCode.INVALID_PARAMETER
    assert change(broker, b"") == ResponseCode.SUCCESS
