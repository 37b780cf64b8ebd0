"""What brokers draw and read for themselves, from the seed: random numbers, times, the disk of the tables.

The product takes clock, reactor, threads and disk as arguments. The few things that it reaches itself are replaced for
the time of a history.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from gateway.broker import controlled, parts, request_loader
from gateway.broker.requests.rare import broker_info
from gateway.broker.requests.sending import stored_properties
from gateway.errors import GatewayError
from gateway.metadata.saved import broker_name, json_file
from gateway.replication.controlled import identity
from gateway.replication.master import port
from gateway.telemetry.logs import EventLog
from gateway.tests.simulation.world import World

PROCESS_ID = 4711
_MODULES = request_loader._modules
_known_modules: Any = functools.cache(lambda package: list(_MODULES(package)))


@contextmanager
def from_seed(world: World) -> Iterator[None]:
    """Let a world decide everything that brokers decide by chance."""
    random = world.random

    def own_disk() -> Any:
        current = world.current
        return getattr(current, "disk", current.machine.disk)

    def steady(clock_ms: Any) -> Any:
        begin_ms = clock_ms() - world.now_us // 1_000
        return lambda: begin_ms + world.now_us // 1_000

    def failed(_log: EventLog, event: str, /, *, failure: BaseException | None = None, **_facts: object) -> None:
        is_of_disk = isinstance(failure, GatewayError) and world.current.machine.had_errors
        if isinstance(failure, Exception) and not is_of_disk:
            world.break_promise(f"unexpected failure: {event}: {failure!r}")

    with ExitStack() as stack:
        for target, name, value in (
            (json_file, "ConfigDisk", own_disk),
            (broker_name, "ConfigDisk", own_disk),
            (identity, "ConfigDisk", own_disk),
            (parts, "steady_clock", steady),
            (controlled, "steady_clock", steady),
            (parts, "randbelow", random.randrange),
            (stored_properties, "randbelow", random.randrange),
            (broker_info, "uuid4", lambda: _Identity(random.getrandbits(128))),
            (broker_info, "_capacity", lambda _: "unknown"),
            (broker_info, "_disk_ratio", lambda _: 0.5),
            (request_loader, "_modules", _known_modules),
            (port, "_addresses_of", lambda name: [name]),
            (os, "getpid", lambda: PROCESS_ID),
            (EventLog, "error", failed),
        ):
            stack.enter_context(patch.object(target, name, value))
        yield


class _Identity:
    """A number as text, as of ``uuid4``."""

    def __init__(self, number: int) -> None:
        self.hex = f"{number:032x}"
