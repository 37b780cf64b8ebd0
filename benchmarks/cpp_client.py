"""The C++ client from Python, one thread that waits for each answer; a process of its own, since it may crash.

``rocketmq-client-python`` 2.0.0 needs librocketmq 2.0.0, which exists as .deb and .rpm of its release on GitHub only:
no wheel, no package of Debian. ``rocketmq`` 0.4.4 is the package it was made from, the same calls by ctypes of the same
C++ client, and its wheel brings the library. It stands for it here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time

from benchmarks.java_tools import CACHE, REPOSITORY, BenchmarkError

PACKAGE = "rocketmq==0.4.4"
_WARM_UP_S = 2.0


def send_pace(nameserver: str, seconds: float, size: int) -> tuple[float, float]:
    """Messages a second and microseconds of CPU a message.

    :raises BenchmarkError: the package cannot be had, or it crashed.
    """
    directory = CACHE / PACKAGE.replace("==", "-")
    if not directory.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [*command, "--target", str(directory), PACKAGE], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BenchmarkError(f"{PACKAGE} cannot be installed here: {done.stderr.strip()[-300:]}")
    command = [sys.executable, "-m", "benchmarks.cpp_client", "--namesrv", nameserver]
    command += ["--seconds", str(seconds), "--size", str(size)]
    home = {"HOME": str(CACHE), "PYTHONPATH": f"{directory}:{REPOSITORY}"}  # it logs below the home directory
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **home}, cwd=CACHE, timeout=120
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    if not lines:
        raise BenchmarkError(f"{PACKAGE} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    rate, client_us = json.loads(lines[-1])
    return rate, client_us


def main() -> None:
    """The process that sends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--size", type=int, required=True)
    options = parser.parse_args()
    client = importlib.import_module("rocketmq.client")
    producer = client.Producer("cpp_bench")
    producer.set_namesrv_addr(options.namesrv)
    producer.start()
    body = "x" * options.size

    def send_for(seconds: float) -> int:
        count = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = client.Message("CppBench")
            message.set_body(body)
            producer.send_sync(message)
            count += 1
        return count

    send_for(_WARM_UP_S)
    wall, cpu = time.perf_counter(), time.process_time()
    count = send_for(options.seconds)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps([count / wall, cpu / count * 1e6]), flush=True)
    os._exit(0)  # its shutdown waits for threads, and has been seen to crash


if __name__ == "__main__":
    main()
