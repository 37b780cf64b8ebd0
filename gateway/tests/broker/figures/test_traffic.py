"""The data path counts what it takes and gives, and tools read it."""

from __future__ import annotations

from pathlib import Path

from gateway.broker.figures.throughput import Traffic
from gateway.tests.broker.whole_broker import WholeBroker, pulling
from wire.bodies.fastjson import parse_json
from wire.codes import RequestCode


def test_counts_begin_at_zero() -> None:
    traffic = Traffic()
    counts = [count for name, count in vars(traffic).items() if not name.startswith("_")]
    assert counts == [0] * 6
    assert traffic.put_times_text().count(":0") == 13


def test_what_was_sent_and_pulled_shows_in_the_figures_of_the_broker(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    client = broker.connect()
    for _ in range(3):
        broker.send(client)
    broker.ask(client, RequestCode.PULL_MESSAGE, pulling(1))
    broker.ask(client, RequestCode.PULL_MESSAGE, pulling(3))
    broker.wait(10)
    table = parse_json(broker.ask(client, RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert table["msgPutTotalTodayNow"] == "3"
    assert table["msgGetTotalTodayNow"] == "2"
    rates = {name: float(str(table[name]).split(" ")[0]) for name in ("putTps", "getFoundTps", "getMissTps")}
    assert rates == {"putTps": 0.3, "getFoundTps": 0.1, "getMissTps": 0.1}
