"""Spark on a cluster of its own: a master and two workers from the pip package, not ``local``.

    python -m compat_tests.spark.standalone

Reads, streams and writes of ``compat_tests.spark.peers`` on this gateway, with tasks in other processes than the
driver's. Everything is started here, and ended by its process id. About two minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat_tests.peers import GatewayProcess
from compat_tests.spark.peers import SETTINGS, PeerSuite
from gateway.client.testing.server import free_port

WORKERS = 2
START_TIMEOUT_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def daemon(folder: Path, name: str, *arguments: str, ready: str) -> Iterator[None]:
    """A master or worker, from when its log says that it is ready until the end of the block."""
    import pyspark

    home = Path(pyspark.__file__).parent
    log = folder / f"{name}.log"
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments], env=environment, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + START_TIMEOUT_S
        while ready not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} is not ready:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)  # noqa: TID251 - another process is waited for
        yield
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    """Start a cluster and a gateway, and ask the suite of it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-standalone-")))
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        stack.enter_context(
            daemon(folder, "master", _MASTER, *where, "--port", str(port), ready="I have been elected leader")
        )
        for number in range(WORKERS):
            given = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), master)
            stack.enter_context(
                daemon(folder, f"worker-{number}", _WORKER, *where, *given, ready="Successfully registered with master")
            )
        server = GatewayProcess(folder / "data", SETTINGS, bind="127.0.0.1")
        server.start()
        stack.callback(server.stop)
        from gateway.spark.pipelines.session import pipeline_session

        os.environ["PYSPARK_PYTHON"] = sys.executable
        with pipeline_session("standalone", master=master) as spark:
            spark.sparkContext.setLogLevel("OFF")
            PeerSuite(spark, server.nameserver, folder).run()
            state = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        print(f"{WORKERS} workers, {state} executors: all of it holds", flush=True)
        assert state == WORKERS, "the tasks did not run on every worker"


if __name__ == "__main__":
    main()
