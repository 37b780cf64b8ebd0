"""The output of ``mqadmin brokerStatus`` for a whole broker."""

from __future__ import annotations

from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from wire.bodies.tools.statistics import KVTable
from wire.codes import RequestCode


def status(broker: WholeBroker) -> dict[str, str]:
    return dict(KVTable.parse(broker.ask(broker.connect(), RequestCode.GET_BROKER_RUNTIME_INFO).body).table)


def test_point_10_a_level_is_shown_as_soon_as_a_message_waits_in_it(broker: WholeBroker) -> None:
    shown = status(broker)
    assert [name for name in shown if name.startswith("scheduleMessageOffset_")] == []
    broker.send(broker.connect(), properties={"DELAY": "4"})
    shown = status(broker)
    assert shown["scheduleMessageOffset_4"] == "0,1"
    assert "scheduleMessageOffset_3" not in shown


def test_point_10_the_start_is_that_of_the_broker_and_not_of_the_first_look(broker: WholeBroker) -> None:
    shown = status(broker)
    assert shown["bootTimestamp"] == str(START_MS)
    assert shown["putMessageTimesTotal"] == "4"
    assert int(shown["putMessageSizeTotal"]) == broker.parts.store.max_commit_log_offset > 0
