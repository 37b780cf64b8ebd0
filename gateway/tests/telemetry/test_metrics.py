"""Metrics are declared once, cheap to change, and bounded."""

import pytest

from gateway.errors import GatewayError
from gateway.telemetry import metrics
from gateway.telemetry.metrics import MetricKind, Registry, Sample


def test_a_plain_number_is_changed_in_place_and_read_as_a_sample() -> None:
    registry = Registry()
    held = registry.gauge("held_pulls", "Pulls that wait")
    held.value += 2
    held.value -= 1
    assert list(registry.samples()) == [Sample("held_pulls", MetricKind.GAUGE, (), 1)]


def test_each_label_set_has_its_own_number_whatever_the_order_of_labels() -> None:
    registry = Registry()
    answers = registry.counter("answers_total", "Answers by code")
    answers.at(code="PULL", result="ok").value += 1
    answers.at(result="ok", code="PULL").value += 1
    answers.at(code="SEND", result="ok").value += 5
    assert [(sample.labels, sample.value) for sample in registry.samples()] == [
        ((("code", "PULL"), ("result", "ok")), 2),
        ((("code", "SEND"), ("result", "ok")), 5),
    ]


def test_a_name_is_declared_once() -> None:
    registry = Registry()
    registry.counter("x", "…")
    with pytest.raises(GatewayError, match="declared twice"):
        registry.gauge("x", "…")


def test_label_sets_beyond_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_SERIES", 2)
    metric = Registry().counter("by_topic", "…")
    for number in range(5):
        metric.at(topic=f"t{number}").value += 1
    assert [sample.value for sample in metric.samples()] == [1, 1, 3]
    assert list(metric.samples())[-1].labels == (("overflow", "true"),)


def test_every_metric_says_what_it_means() -> None:
    registry = Registry()
    registry.counter("x", "Counts x")
    assert registry.sentences() == {"x": "Counts x"}


def test_a_level_of_somebody_else_is_asked_for_when_it_is_read() -> None:
    registry = Registry()
    log = [1]
    registry.watch("log_bytes", "Bytes of the log", lambda: sum(log))
    log.append(41)
    assert list(registry.samples()) == [Sample("log_bytes", MetricKind.GAUGE, (), 42)]
    assert registry.sentences() == {"log_bytes": "Bytes of the log"}
    with pytest.raises(GatewayError, match="declared twice"):
        registry.gauge("log_bytes", "Again")


def test_distributions_are_bounded_like_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_SERIES", 2)
    registry = Registry()
    latency = registry.histogram("latency", "Seconds", (1,))
    for topic in ("a", "b", "c", "d", "a"):
        latency.of(topic=topic).observe(0.5)
    counts = {sample.labels: sample.value for sample in latency.samples() if sample.name == "latency_count"}
    assert counts == {(("topic", "a"),): 2, (("topic", "b"),): 1, (("overflow", "true"),): 2}
