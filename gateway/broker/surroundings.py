"""What a broker gets from the process that it runs in: time, threads, the disk and the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.broker.desk import QueuesOf
    from gateway.clock import Milliseconds
    from gateway.in_thread import InThread
    from gateway.store.disk.files import FileLayer


async def no_name_server(_topic: str) -> None:
    """Say that there is nobody to ask for queues: the broker's own are all there are."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """One value of everything that is not made by the broker itself.

    :param clock: epoch milliseconds.
    :param soon: runs a function at the end of the reactor turn and writes out the answers it made.
    :param in_log_thread: runs blocking work on the commit log, in order.
    :param in_sync: the same for the syncs of its batches; ``in_log_thread`` when left out.
    :param in_thread: runs other blocking work in a thread pool.
    :param listen_port: the broker's main port, once it listens.
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
