"""The pipelines as a program of their own, for ``python -m`` and, by the path of this file, for ``spark-submit``."""

from __future__ import annotations

from gateway.spark.pipelines.commands import pipeline

if __name__ == "__main__":
    pipeline(prog_name="pipeline")
