"""``rocketmq-gateway pipeline``: the Spark pipelines, if the package ``rocketmq-gateway[spark]`` is installed."""

from __future__ import annotations

from gateway.cli.clients.answer_checks import answer_checks
from gateway.spark.pipelines.commands import pipeline

__all__ = ["pipeline"]

pipeline.add_command(answer_checks)
