"""The Spark session of a pipeline: the one of ``spark-submit`` if it runs, otherwise one on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.spark.errors import NotReady
from gateway.spark.registration import java_before_start, package_problems, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable that ``spark-submit`` sets for its program.

If the variable is set, the options of ``spark-submit`` choose master and memory.
"""
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.python.authenticate.socketTimeout": "120s",
}
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "32",
}


@contextmanager
def pipeline_session(name: str, *, master: str = "local[*]") -> Iterator[SparkSession]:
    """Open a session in which ``rocketmq`` is registered, and stop the session at the end.

    :param master: Spark's master; ``spark-submit`` takes its own.
    :raises NotReady: Java or a package is missing; the text says which.
    """
    problems = package_problems()
    missing_java = None if problems or _SUBMITTED in os.environ else java_before_start()
    if problems or missing_java:
        raise NotReady("; ".join([*problems, *([missing_java] if missing_java else [])]))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).config(map=dict(_SETTINGS))
    if _SUBMITTED not in os.environ:
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = builder.config(map=dict(_LOCAL_SETTINGS))
        builder = builder.master(master).config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        yield spark
    finally:
        spark.stop()
