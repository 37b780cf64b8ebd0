"""The question: how fast does a Java consumer read what is already stored."""

from __future__ import annotations

from benchmarks.java_tools import READER_FLAGS, BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, serving

_TOPIC = "Backlog"


def _row(name: str, *options: str) -> Row:
    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind) as server:
            common = ("-n", server.nameserver, "-t", _TOPIC)
            filling = ("--create", "8", "-m", "batch", "-w", "4", "-b", "32", "-q", str(effort.backlog))
            filled = run_program("SendLoad", *common, *filling)
            if filled["failed"]:
                raise BenchmarkError(f"{kind}: filling the backlog failed: {filled['errors']}")
            found = run_program(
                "Backlog",
                *(*common, "-c", str(effort.backlog), "--skip", str(effort.backlog // 3)),
                *("--pid", str(server.broker_pid), *options),
                flags=READER_FLAGS,
            )
            if found["complete"] != "true":
                raise BenchmarkError(f"{kind}: only {found['seen']} of {effort.backlog} messages were read")
            return Measured(
                {
                    "messages_per_s": found["msgs_per_s"],
                    "server_cpu_us": found["server_cpu_us"],
                    "client_cpu_us": found["client_cpu_us"],
                    "first_message_ms": found["first_ms"],
                }
            )

    return Row(name, measure, {"messages_per_s": 0.8})


ROWS = (_row("backlog-push", "-m", "push"), _row("backlog-pull", "-m", "pull"))
