"""The question: how fast does a Java consumer read what is already stored: all, a hundredth of it, or by popping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.java_tools import READER_FLAGS, BenchmarkError, run_program
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind, Server, serving

TOPIC = "Backlog"
_SQL92 = {"enablePropertyFilter": "true"}
"""Off by default in Apache RocketMQ."""
RARE = 100
"""One message in so many has the tag and the property that a filtering consumer asks for."""
PASSES = 6
"""A consumer that filters reads all so often, of which the first pass is not timed: one pass takes half a second, which
the JVM of a client that has just started spends on compiling."""
POPPED = 0.9
"""This share of the backlog is timed where it is popped: Apache RocketMQ gives the last ones out a minute later."""


def fill(server: Server, messages: int, *options: str) -> None:
    """Store so many messages; an error when one was not."""
    common = ("-n", server.nameserver, "-t", TOPIC, "--create", "8", "-m", "batch", "-w", "4", "-b", "32")
    filled = run_program("SendLoad", *common, "-q", str(messages), *options)
    if filled["failed"]:
        raise BenchmarkError(f"{server.kind}: filling the backlog failed: {filled['errors']}")


def _read(server: Server, messages: int, *options: str) -> dict[str, Any]:
    found = run_program(
        "Backlog",
        *("-n", server.nameserver, "-t", TOPIC, "-c", str(messages), "--skip", str(messages // 3)),
        *("--pid", str(server.broker_pid), "--broker", f"127.0.0.1:{server.broker_port}", *options),
        flags=READER_FLAGS,
    )
    if found["complete"] != "true":
        raise BenchmarkError(f"{server.kind}: only {found['seen']} of {messages} messages were read")
    return found


def _row(name: str, *options: str, part: int = 1, share: float = 1.0, settings: Mapping[str, str] | None = None) -> Row:
    """A row; ``part``: one message in so many is wanted; ``share``: so much of them is read."""
    filling = ("--rare", str(part)) if part > 1 else ()
    passes = ("--passes", str(PASSES)) if part > 1 else ()

    def measure(kind: Kind, effort: Effort) -> Measured:
        with serving(kind, settings=settings) as server:
            fill(server, effort.backlog, *filling)
            found = _read(server, int(effort.backlog * share) // part, *passes, *options)
        return Measured(
            {
                "messages_per_s": found["msgs_per_s"] * part,
                "server_cpu_us": found["server_cpu_us"] / part,
                "client_cpu_us": found["client_cpu_us"] / part,
                "first_message_ms": found["first_ms"],
            }
        )

    return Row(name, measure, {"messages_per_s": 1.0})


ROWS = (
    _row("backlog-push", "-m", "push"),
    _row("backlog-push-1024", "-m", "push", "--pull", "1024"),
    _row("backlog-pull", "-m", "pull"),
    _row("backlog-pull-1024", "-m", "pull", "--pull", "1024"),
    _row("backlog-litepull", "-m", "litepull"),
    _row("backlog-tag", "-m", "push", "--tag", "rare", part=RARE),
    _row("backlog-sql92", "-m", "push", "--sql", "kind=1", part=RARE, settings=_SQL92),
    _row("backlog-pop", "-m", "pop", share=POPPED),
)
