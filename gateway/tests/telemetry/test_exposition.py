"""Metrics as Prometheus reads them."""

from __future__ import annotations

from gateway.telemetry.exposition import exposition
from gateway.telemetry.metrics import Registry


def test_each_metric_has_its_help_its_type_and_its_series() -> None:
    registry = Registry()
    registry.counter("answers_total", "Answers by code").at(code="PULL").value += 3
    registry.gauge("held", "Held").value = 1.5
    registry.watch("log_bytes", "Bytes", lambda: 42)
    assert exposition(registry.metrics(), {"cluster": "c"}).splitlines() == [
        "# HELP answers_total Answers by code",
        "# TYPE answers_total counter",
        'answers_total{cluster="c",code="PULL"} 3',
        "# HELP held Held",
        "# TYPE held gauge",
        'held{cluster="c"} 1.5',
        "# HELP log_bytes Bytes",
        "# TYPE log_bytes gauge",
        'log_bytes{cluster="c"} 42',
    ]


def test_a_histogram_counts_what_is_not_above_each_bound() -> None:
    registry = Registry()
    latency = registry.histogram("latency", "Seconds", (5, 60)).of(topic="orders")
    for value in (0.5, 5, 61):
        latency.observe(value)
    assert exposition(registry.metrics(), {}).splitlines()[1:] == [
        "# TYPE latency histogram",
        'latency_bucket{topic="orders",le="5"} 2',
        'latency_bucket{topic="orders",le="60"} 2',
        'latency_bucket{topic="orders",le="+Inf"} 3',
        'latency_sum{topic="orders"} 66.5',
        'latency_count{topic="orders"} 3',
    ]


def test_what_clients_named_cannot_break_a_line() -> None:
    registry = Registry()
    registry.counter("x", "a\\b\nc").at(topic='q"\\\n').value += 1
    assert exposition(registry.metrics(), {}).splitlines() == [
        r"# HELP x a\\b\nc",
        "# TYPE x counter",
        r'x{topic="q\"\\\n"} 1',
    ]
