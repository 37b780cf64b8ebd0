"""Counts and levels by name, kept in memory.

A metric is declared once, at the top of the part that changes it; declaring a name twice is an error. The text for
exporters is made in ``exposition``. A metric has the same name as in Apache RocketMQ 5.x where both mean the same.

    held = registry.gauge("rocketmq_gateway_held_pulls", "Pull requests that wait for a message")
    held.value += 1                                          # hot path: a plain attribute

    registry.watch("rocketmq_storage_size", "Bytes of the commit log", lambda: log.size)    # asked when read

    answers = registry.counter("rocketmq_rpc_total", "Requests answered, by code")
    answers.at(request_code="SEND_MESSAGE").value += 1      # one series per label set, bounded

    latency = registry.histogram("rocketmq_finish_message_latency", "Seconds to the commit", (5, 60))
    latency.of(topic="orders").observe(0.2)
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gateway.errors import GatewayError

MAX_SERIES = 10_000
"""The number of label sets of one metric; further ones are counted together under ``overflow="true"``."""

Labels = tuple[tuple[str, str], ...]
_OVERFLOW: Labels = (("overflow", "true"),)


class MetricKind(StrEnum):
    """The kind of a metric: a counter only rises while the process lives, a gauge rises and falls."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    """A histogram has three kinds of samples: ``NAME_bucket`` with the label ``le``, ``NAME_sum``, ``NAME_count``."""


class Series:
    """One number. A plain class for speed: the hot path writes it, as ``series.value += 1``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0


class Metric(Series):
    """A named number; ``at`` returns the number of one label set instead."""

    def __init__(self, name: str, sentence: str, kind: MetricKind) -> None:
        super().__init__()
        self.name = name
        self.sentence = sentence
        self.kind = kind
        self._series: dict[Labels, Series] = {}

    def at(self, **labels: str) -> Series:
        """Return the series of these labels; keep the result where it is used often."""
        key: Labels = tuple(sorted(labels.items()))
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                key = _OVERFLOW
            series = self._series.setdefault(key, Series())
        return series

    def samples(self) -> Iterator[Sample]:
        """Yield the labelled series, or the plain number if there are none."""
        if not self._series:
            yield Sample(self.name, self.kind, (), self.value)
        for labels, series in self._series.copy().items():  # other threads add series
            yield Sample(self.name, self.kind, labels, series.value)


class Watched(Metric):
    """A level that another part keeps: its function is called when the metrics are read, in the reader's thread."""

    def __init__(self, name: str, sentence: str, ask: Callable[[], int | float]) -> None:
        super().__init__(name, sentence, MetricKind.GAUGE)
        self._ask = ask

    def samples(self) -> Iterator[Sample]:
        """Yield the level as it is now."""
        yield Sample(self.name, self.kind, (), self._ask())


class Distribution:
    """The number of values in each bucket. A plain class for speed: the hot path writes it."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: int | float = 0

    def observe(self, value: int | float) -> None:
        """Count one value; a bucket holds values that are not above its bound."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Histogram(Metric):
    """Distributions by label set.

    :param bounds: the upper ends of the buckets, rising; a bucket without an upper end is added.
    """

    __slots__ = ("_distributions", "bounds")

    def __init__(self, name: str, sentence: str, bounds: Sequence[float]) -> None:
        super().__init__(name, sentence, MetricKind.HISTOGRAM)
        self.bounds = tuple(bounds)
        self._distributions: dict[Labels, Distribution] = {}

    def of(self, **labels: str) -> Distribution:
        """Return the distribution of these labels; keep the result where it is used often."""
        key: Labels = tuple(sorted(labels.items()))
        if key not in self._distributions and len(self._distributions) >= MAX_SERIES:
            key = _OVERFLOW
        return self._distributions.setdefault(key, Distribution(self.bounds))

    def samples(self) -> Iterator[Sample]:
        """Yield the buckets, the sum and the count of each label set; a bucket includes the buckets below it."""
        for labels, distribution in self._distributions.copy().items():  # other threads add some
            below = 0
            for bound, count in zip((*self.bounds, float("inf")), distribution.counts, strict=True):
                below += count
                bucket = (*labels, ("le", "+Inf" if bound == float("inf") else f"{bound:g}"))
                yield Sample(f"{self.name}_bucket", self.kind, bucket, below)
            yield Sample(f"{self.name}_sum", self.kind, labels, distribution.total)
            yield Sample(f"{self.name}_count", self.kind, labels, below)


@dataclass(frozen=True, slots=True)
class Sample:
    """One number at the time when it was read."""

    name: str
    kind: MetricKind
    labels: Labels
    value: int | float


class Registry:
    """All metrics of one process; made at start and handed to the parts."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, sentence: str) -> Metric:
        """Declare a number that only rises.

        :raises GatewayError: the name is taken.
        """
        return self._declare(Metric(name, sentence, MetricKind.COUNTER))

    def gauge(self, name: str, sentence: str) -> Metric:
        """Declare a number that rises and falls.

        :raises GatewayError: the name is taken.
        """
        return self._declare(Metric(name, sentence, MetricKind.GAUGE))

    def histogram(self, name: str, sentence: str, bounds: Sequence[float]) -> Histogram:
        """Declare a distribution of values.

        :raises GatewayError: the name is taken.
        """
        histogram = Histogram(name, sentence, bounds)
        self._declare(histogram)
        return histogram

    def watch(self, name: str, sentence: str, ask: Callable[[], int | float]) -> None:
        """Declare a level whose function ``ask`` is called when the level is read.

        :raises GatewayError: the name is taken.
        """
        self._declare(Watched(name, sentence, ask))

    def metrics(self) -> list[Metric]:
        """Return every metric, in the order of declaration."""
        return list(self._metrics.values())

    def samples(self) -> Iterator[Sample]:
        """Yield every number, in the order of declaration."""
        for metric in list(self._metrics.values()):
            yield from metric.samples()

    def sentences(self) -> dict[str, str]:
        """Return the meaning of each metric, by name."""
        return {name: metric.sentence for name, metric in self._metrics.items()}

    def _declare(self, metric: Metric) -> Metric:
        if metric.name in self._metrics:
            raise GatewayError(f"the metric {metric.name} is declared twice")
        self._metrics[metric.name] = metric
        return metric
