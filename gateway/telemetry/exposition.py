"""The metrics as text, in the format that Prometheus reads (version 0.0.4). Pure.

Upstream's exporter gives every series the labels cluster, node_type and node_id; pass these labels as ``common``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gateway.telemetry.metrics import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_VALUE_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def exposition(metrics: Iterable[Metric], common: Mapping[str, str]) -> str:
    """Return all series of the metrics as text, each with the common labels first.

    :param common: label names and values; a name must be valid for Prometheus.
    """
    return "".join(exposition_lines(metrics, common))


def exposition_lines(metrics: Iterable[Metric], common: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of ``exposition``, each with its line end; a number is read when its line is asked for."""
    labels = tuple(common.items())
    for metric in metrics:
        for line in _lines(metric, labels):
            yield line + "\n"


def _lines(metric: Metric, common: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.sentence.translate(_HELP_ESCAPES)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in metric.samples():
        labels = ",".join([f'{name}="{value.translate(_VALUE_ESCAPES)}"' for name, value in (*common, *sample.labels)])
        yield f"{sample.name}{{{labels}}} {sample.value}" if labels else f"{sample.name} {sample.value}"
