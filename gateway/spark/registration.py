"""Registration of the source in a Spark session, after a check of what the source needs.

One error names everything that is missing, with advice for each part. Spark itself would report the missing parts
query by query, inside a worker's stack trace.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.spark.errors import NotReady

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_PYTHON: Final = (3, 11)
LEAST_VERSIONS: Final = {"pyspark": (4, 2), "pyarrow": (18, 0), "numpy": (1, 26), "pandas": (2, 2)}
WORKER_PACKAGES: Final = ("pyarrow", "numpy")
RUN_TIMEOUT_S: Final = 30
"""Seconds that another program gets for an answer about itself."""
LEAST_JAVA: Final = 17
"""The oldest Java version that Spark 4 runs on."""


def register(spark: SparkSession) -> None:
    """Make ``format("rocketmq")`` known to a session.

    Workers on this machine then run on the Python of this program.

    :raises NotReady: a package or Java is missing or too old; the text names the part and says what to do.
    """
    problems = package_problems()
    if not problems:
        use_this_python(spark)
        problems = java_problems(spark) + worker_problems(spark)
    if problems:
        raise NotReady("the data source rocketmq cannot be used:\n- " + "\n- ".join(problems))
    from gateway.spark.source import RocketMQDataSource

    spark.dataSource.register(RocketMQDataSource)


def package_problems() -> list[str]:
    """Return the problems of this Python and its packages; one sentence each."""
    problems: list[str] = []
    if sys.version_info < LEAST_PYTHON:
        problems.append(f"Python is {sys.version.split()[0]}; it takes {_text(LEAST_PYTHON)} or later")
    for name, least in LEAST_VERSIONS.items():
        found = _installed(name)
        if found is None:
            problems.append(f'{name} is not installed: pip install "rocketmq-gateway[spark]"')
        elif numbers(found) < least:
            problems.append(f"{name} is {found}; it takes {_text(least)} or later: pip install --upgrade {name}")
    return problems


def java_problems(spark: SparkSession) -> list[str]:
    """Return the problems of the Java that Spark runs on; none over Spark Connect, where Java runs elsewhere."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return []
    text = str(context._jvm.System.getProperty("java.specification.version"))
    version = numbers(text)
    return [] if version >= (LEAST_JAVA,) else [f"Java is {text}; Spark takes {LEAST_JAVA} or later"]


def use_this_python(spark: SparkSession) -> None:
    """Run workers on this machine on the Python of this program, unless ``PYSPARK_PYTHON`` names another one."""
    context = getattr(spark, "_sc", None)
    if context is not None and context.master.startswith("local") and not os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = sys.executable


def worker_problems(spark: SparkSession) -> list[str]:
    """Return the problems of the workers' Python, if the workers run on this machine.

    Without a setting, Spark takes ``python3`` of the path, even if the driver runs on another Python.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return []
    python = shutil.which(context.pythonExec)
    if python == sys.executable:
        return []
    advice = f"unset PYSPARK_PYTHON, or start the session with PYSPARK_PYTHON={sys.executable} in the environment"
    if python is None:
        return [f"Spark's workers are to run on {context.pythonExec}, which is not there: {advice}"]
    command = [python, "-c", f"import {', '.join(WORKER_PACKAGES)}"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        return [f"Spark's workers are to run on {python}, which cannot be run ({error}): {advice}"]
    if found.returncode == 0:
        return []
    reason = (found.stderr.strip().splitlines() or [f"exit status {found.returncode}"])[-1]
    return [f"Spark's workers run on {python}, which lacks something: {reason}; {advice}"]


def java_before_start() -> str | None:
    """Return an error text if this machine has no suitable Java for a Spark session, otherwise None.

    Programs that make a session call this first, because PySpark's own error does not say that Java is missing.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install Java {LEAST_JAVA} or later, or set JAVA_HOME to its directory"
    if java is None:
        return f"there is no Java: {advice}"
    try:
        said = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{java} cannot be run ({error}): {advice}"
    match = re.search(r'version "([^"]+)"', said.stderr)
    if match is None or numbers(match[1]) < (LEAST_JAVA,):
        return f"{java} is {match[1] if match else 'of an unknown version'}: {advice}"
    return None


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``"4.3.0.dev1"`` is (4, 3, 0)."""
    match = re.match(r"\d++(?:\.\d++)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:  # put on the path by hand, without an installer's records
        return str(importlib.import_module(name).__version__)
    except (ImportError, AttributeError):
        return None
