"""A Spark driver in a process of its own, so that it can be killed: the program, and what has it run.

    python -m compat_tests.spark.driver MASTER

The program does what it is told, one JSON object a line, and answers each with one. What it is, is the driver in
Spark's words: Python and its Java. Killed are these two; what they had started (workers, executors) finds out by
itself, as it would on a cluster.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from compat_tests.environment import REPOSITORY
from gateway.spark.pipelines.archive import ArchiveOptions, forget_half_written, start_archive

START_TIMEOUT_S = 300.0
GONE_TIMEOUT_S = 120.0
_ANSWER = "answer "
_MARK = "COMPAT_SPARK_DRIVER"
"""In the environment of a driver and of all that it starts: who is told of a death by nobody else is found by it."""
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""It lives for seconds: what the better compiler would win later is not waited for."""
_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.daemon.module": "compat_tests.spark.warm_daemon",
}
"""Nor is Java code made for queries of a few rows, and Python workers are forked with their imports done."""


class Driver:
    """The process; started when it is asked something, and again after it was killed.

    :param master: ``local[2,4]``, or ``local-cluster[2,1,1024]`` for executors in processes of their own.
    :param log: file for what Spark logs.
    :param classes: archive of Java's classes; one that is recorded is there after ``finish``.
    """

    def __init__(self, master: str, log: Path, *, classes: Path | None = None, is_recording: bool = False) -> None:
        self.master = master
        self.starts = 0
        """How often it was started."""
        self._log = log
        option = "ArchiveClassesAtExit" if is_recording else "SharedArchiveFile"
        self._archive = f" -XX:{option}={classes} -Xlog:disable" if classes is not None else ""
        self._process: subprocess.Popen[str] | None = None
        self._is_ready = False
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._mark = uuid.uuid4().hex

    def start(self) -> None:
        """Start it, without waiting until it is ready; nothing when it runs."""
        if self._process is not None:
            return
        command = [sys.executable, "-m", "compat_tests.spark.driver", self.master]
        environment = {
            **os.environ,
            _MARK: self._mark,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_SUBMIT_ARGS": submit_arguments(self._archive),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.starts += 1
        self._is_ready = False
        self._answers = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self._process, self._answers), daemon=True).start()

    def ask(self, verb: str, *, timeout_s: float, **fields: Any) -> dict[str, Any]:
        """Tell it to do something and wait for its answer.

        :raises AssertionError: it died, or did not answer in time.
        """
        self.tell(verb, **fields)
        answer = self.answer(timeout_s)
        assert answer is not None, f"the driver died by itself; its log ends: {self._log.read_text()[-2000:]}"
        return answer

    def tell(self, verb: str, **fields: Any) -> None:
        """Tell it to do something when it is ready; ``answer`` says what came of it."""
        self.start()
        if not self._is_ready:
            self._is_ready = self.answer(START_TIMEOUT_S) is not None
        assert self._process is not None, "it was started"
        assert self._process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # then the answer is that it died
            self._process.stdin.write(json.dumps({"do": verb, **fields}) + "\n")
            self._process.stdin.flush()

    def answer(self, timeout_s: float) -> dict[str, Any] | None:
        """What it answered last; None when it died, by itself or since Spark's part of it did.

        :raises AssertionError: it did neither in time.
        """
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"the driver did not answer within {timeout_s:.0f} s") from None
        if answer is None or not _java(self._process):
            self.kill()
            return None
        return answer

    @property
    def has_answered(self) -> bool:
        """Return whether it answered, or died."""
        return not self._answers.empty()

    def kill(self) -> None:
        """Kill Java and Python of it, at once; nothing when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        for each in _java(process):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.kill()
        process.wait()
        assert process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # what was not read by it
            process.stdin.close()

    def finish(self, timeout_s: float) -> None:
        """Let it end by itself.

        :raises subprocess.TimeoutExpired: it has not in time.
        """
        assert self._process is not None, "it was started"
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        self._process.wait(timeout_s)

    def workers(self) -> list[psutil.Process]:
        """The Python processes that read and write rows; and some that plan, without which a query fails."""
        daemons = [each for each in self._children() if "_daemon " in _command(each)]
        return [worker for daemon in daemons for worker in _children(daemon)]

    def executors(self) -> list[psutil.Process]:
        """Return the Java processes that run tasks; none if the master has no such processes."""
        return [each for each in self._children() if "CoarseGrainedExecutorBackend" in _command(each)]

    def close(self) -> None:
        """Kill it, and wait until all it ever started is gone.

        :raises AssertionError: something stays although its driver is gone.
        """
        self.kill()
        end = time.monotonic() + GONE_TIMEOUT_S
        while alive := self._family():
            if time.monotonic() > end:
                said = [_command(each) for each in alive]
                for each in alive:
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
                raise AssertionError(f"these outlived their driver: {said}")
            time.sleep(0.1)  # noqa: TID251 - other processes are waited for

    def _family(self) -> list[psutil.Process]:
        """All that runs of what it ever started; the dead have no environment."""
        found = psutil.process_iter(["environ"])
        return [each for each in found if (each.info["environ"] or {}).get(_MARK) == self._mark]

    def _children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            if self._process is not None:
                return list(psutil.Process(self._process.pid).children(recursive=True))
        return []  # dead


def submit_arguments(more_of_java: str = "") -> str:
    """Return ``PYSPARK_SUBMIT_ARGS`` for a session of short queries."""
    java = {f"spark.{part}.extraJavaOptions": JAVA_OPTIONS + more_of_java for part in ("driver", "executor")}
    settings = {**_SETTINGS, **java}
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return shlex.join([*options, "pyspark-shell"])


def _read(process: subprocess.Popen[str], answers: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    """Pass on its answers, and in the end None."""
    assert process.stdout is not None, "it is a pipe"
    with process.stdout:
        for line in process.stdout:
            if line.startswith(_ANSWER):
                answers.put(json.loads(line.removeprefix(_ANSWER)))
    answers.put(None)


def _java(process: subprocess.Popen[str] | None) -> list[psutil.Process]:
    """Spark's part of a driver."""
    with suppress(psutil.NoSuchProcess):
        if process is not None:
            children = psutil.Process(process.pid).children()
            return [each for each in children if each.name() == "java" and each.status() != psutil.STATUS_ZOMBIE]
    return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return list(process.children())
    return []


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


# --- the program --------------------------------------------------------------------------------------------


class Orders:
    """The orders that the program can carry out."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def archive(self, source: Mapping[str, str], path: str, most: int) -> dict[str, Any]:
        """Archive what there is."""
        columns = ("msgId", "queueOffset")
        options = ArchiveOptions(source=source, path=path, max_offsets=most, columns=columns)
        return _ended(start_archive(self._spark, options))

    def archived(self, path: str) -> dict[str, Any]:
        """Return the archived messages."""
        rows = self._spark.read.parquet(path).select("msgId", "queueId", "queueOffset").collect()
        return {"rows": [list(row) for row in rows]}

    def copy(self, source: Mapping[str, str], sink: Mapping[str, str], sink_format: str) -> dict[str, Any]:
        """Copy what there is into another topic."""
        reader = self._spark.readStream.format("rocketmq").options(**source).schema("body binary, tags string")
        forget_half_written(self._spark, sink["checkpointLocation"])  # or Spark refuses it
        writer = reader.load().writeStream.format(sink_format).options(**sink)
        return _ended(writer.trigger(availableNow=True).start())

    def bodies(self, source: Mapping[str, str]) -> dict[str, Any]:
        """The bodies in a topic."""
        rows = self._spark.read.format("rocketmq").options(**source).schema("body binary").load().collect()
        return {"rows": [bytes(row.body).decode() for row in rows]}

    def warm_up(self, path: str) -> dict[str, Any]:
        """Load what is loaded for a stream."""
        rows = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().repartition(2)
        writer = rows.writeStream.format("parquet").option("path", path)
        query = writer.option("checkpointLocation", f"{path}-checkpoint").start()
        while len(query.recentProgress) < 3:
            time.sleep(0.1)  # noqa: TID251 - Spark works
        query.stop()
        return {"rows": self._spark.read.parquet(path).count()}


def _ended(query: Any) -> dict[str, Any]:
    query.awaitTermination()
    return {}


def main() -> None:
    """Do what standard input says, until it ends."""
    from compat_tests.spark.killed.dying_sink import DyingSource
    from gateway.spark.pipelines.session import pipeline_session

    with pipeline_session("driver", master=sys.argv[1]) as spark:
        spark.sparkContext.setLogLevel("OFF")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.dataSource.register(DyingSource)
        orders = Orders(spark)
        print(f"{_ANSWER}{{}}", flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            try:
                answer = getattr(orders, order.pop("do"))(**order)
            except Exception as error:  # noqa: BLE001 - whatever it is, who ordered it is told
                answer = {"failed": str(error)}
            print(f"{_ANSWER}{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
