"""Spark's Python daemon, with what workers import loaded before it forks them. In a trial many are killed.

That is pandas too, which Arrow loads when it makes its first array.
"""

from __future__ import annotations

import pandas
import pyarrow.compute
import pyspark.worker
from pyspark import daemon

import gateway.spark.source

__all__ = ["gateway", "pandas", "pyarrow", "pyspark"]

if __name__ == "__main__":
    daemon.manager()
