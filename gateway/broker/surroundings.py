"""The things that a broker gets from its process: time, threads, the disk and the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.broker.desk import QueuesOf
from gateway.clock import Milliseconds
from gateway.in_thread import InThread
from gateway.store.disk.files import FileLayer


async def no_name_server(_topic: str) -> None:
    """Return None: no name server can be asked for queues, so the broker's own queues are all there are."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Everything that a broker needs and does not make itself, as one value.

    :param clock: the time in epoch milliseconds.
    :param soon: runs a function at the end of the reactor's turn and writes out the answers that were made there.
    :param in_log_thread: runs blocking work on the commit log, in the order of the calls.
    :param in_sync: runs the syncs of the commit log's batches; ``in_log_thread`` when left out.
    :param in_thread: runs other blocking work in a thread pool.
    :param listen_port: returns the broker's main port, once the broker listens.
    :param read_queues: asks the name servers for the queues of a topic.
    :param files: the disk of the store; the operating system's files when left out.
    """

    reactor: Any
    clock: Milliseconds
    soon: Callable[[Callable[[], None]], None]
    in_log_thread: InThread
    in_sync: InThread | None = None
    in_thread: InThread
    listen_port: Callable[[], int]
    read_queues: QueuesOf = no_name_server
    files: FileLayer | None = None
