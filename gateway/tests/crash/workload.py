"""A workload: a choice of steps, how often each comes, and the store's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gateway.settings import Settings
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.crash.small_broker import TRANSACTIONS

ASYNC_FLUSH = FlushDiskType.ASYNC_FLUSH
SMALL = StoreSettings(
    mapped_file_size_commit_log=32_768,
    mapped_file_size_consume_queue=6_000,  # 300 units
    max_hash_slot_num=64,
    max_index_num=256,
    max_message_size=4096,
)
ROLLING = replace(SMALL, mapped_file_size_commit_log=8_192, mapped_file_size_consume_queue=160, max_index_num=24)
LIGHT = replace(ROLLING, enable_lmq=True, enable_multi_dispatch=True)
EXTENDED = replace(LIGHT, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=160)  # 6 units a file
SIZES = (0, 1, 30, 300, 300, 600, 1500)
SHORT = (0, 1, 30, 300)


@dataclass(frozen=True, slots=True)
class Workload:
    """Steps by name with their weights, how many of them one life has, and the sizes of bodies.

    With one size only, records that a crash left behind fit exactly behind those that are written after it.
    """

    name: str
    weights: Mapping[str, int]
    settings: StoreSettings = SMALL
    steps: int = 60
    lives: int = 3
    sizes: tuple[int, ...] = SIZES
    states: TransactionStateStore = TransactionStateStore.QUEUE
    transactions: Settings = TRANSACTIONS


_COMMON: dict[str, Any] = {"turn": 6, "work": 6, "settle": 1, "flush_due": 1}
_ALL = {"append": 8, "append_all": 3, "half": 4, "end": 6, "commit": 2, "persist": 1, "topic": 1, "reopen": 1}
_SYNC = (
    Workload("append", {"append": 10, **_COMMON, "flush": 1}),
    Workload("batch", {"append": 2, "append_all": 5, **_COMMON, "flush": 1}),
    Workload("refill", {"append": 4, "append_all": 4, **_COMMON}, steps=20, lives=8, sizes=(1500,)),
    Workload("roll", {"append": 10, "append_all": 2, **_COMMON, "flush": 1}, ROLLING, steps=90),
    Workload(
        "transaction", {"half": 6, "end": 8, "append": 1, "progress": 2, "persist": 2, **_COMMON}, ROLLING, steps=80
    ),
    *(
        Workload(
            f"transaction-{states}",
            {"half": 6, "end": 8, "append": 1, "progress": 4, "persist": 2, "reopen": 1, **_COMMON},
            ROLLING,
            steps=80,
            states=states,
        )
        for states in (TransactionStateStore.TABLE, TransactionStateStore.DATABASE)
    ),
    Workload(
        "transaction-taken",
        {"half": 6, "end": 8, "append": 1, "progress": 3, "persist": 1, "hand_over": 3, **_COMMON},
        ROLLING,
        steps=60,
        states=TransactionStateStore.TABLE,
    ),
    Workload(
        "retention",
        {"append": 10, "half": 1, "end": 2, "age": 1, "delete_expired": 2, "progress": 1, **_COMMON},
        ROLLING,
        steps=110,
    ),
    Workload("tables", {"commit": 6, "persist": 2, "topic": 2, "append": 1, "turn": 6, "work": 6, "settle": 1}),
    Workload(
        "deletion",
        {
            "append": 8,
            "append_all": 2,
            "delete_messages": 2,
            "commit": 3,
            "persist": 1,
            **_COMMON,
            "flush": 1,
            "reopen": 1,
        },
        steps=80,
    ),
    Workload(
        "groups",
        {
            "commit": 6,
            "persist": 2,
            "topic": 2,
            "drop_topic": 2,
            "group": 4,
            "drop_group": 3,
            "append": 1,
            "turn": 6,
            "work": 6,
            "settle": 1,
            "reopen": 1,
        },
    ),
    Workload("delay", {"delayed": 8, "append": 1, "wait": 5, "persist_delays": 3, **_COMMON}, ROLLING, steps=90),
    Workload("timer", {"timed": 8, "append": 1, "tick": 9, "save_timers": 3, **_COMMON}, ROLLING, steps=110),
    Workload(
        "timer-reopen",
        {"timed": 8, "tick": 4, "save_timers": 1, "reopen": 6, "reopen_late": 2, **_COMMON},
        ROLLING,
        steps=110,
    ),
    Workload(
        "timer-recall",
        {"timed": 8, "recall_any": 7, "tick": 7, "save_timers": 3, "reopen": 1, **_COMMON},
        ROLLING,
        steps=110,
    ),
    Workload(
        "timer-errors",
        {"timed": 8, "recall": 3, "append": 1, "tick": 9, "save_timers": 4, **_COMMON, "fail_timer_file": 2},
        ROLLING,
        steps=110,
    ),
    Workload(
        "timer-full",
        {"timed": 8, "append": 2, "tick": 6, "wait": 3, "save_timers": 4, **_COMMON, "fill_disk": 2, "free_disk": 4},
        ROLLING,
        steps=110,
    ),
    Workload(
        "transaction-full",
        {"half": 6, "end": 8, "append": 3, "progress": 3, "persist": 2, **_COMMON, "fill_disk": 2, "free_disk": 4},
        ROLLING,
        steps=110,
    ),
    Workload(
        "discard",
        {"half": 5, "end": 1, "wait": 8, "progress": 1, "persist": 1, **_COMMON},
        ROLLING,
        steps=80,
        transactions=replace(
            TRANSACTIONS, transaction_timeout_ms=2_000, transaction_check_interval_ms=2_000, transaction_check_max=2
        ),
    ),
    Workload(
        "disk-errors", {"append": 8, "append_all": 3, **_COMMON, "flush": 1, "fail_write": 1, "fail_sync": 1}, ROLLING
    ),
    Workload(
        "light",
        {"light": 10, "append": 3, "half": 1, "end": 1, "age": 1, "delete_expired": 1, **_COMMON, "reopen": 1},
        LIGHT,
        steps=90,
    ),
    Workload(
        "run",
        {"append_run": 8, "append": 3, "age": 1, "delete_expired": 1, **_COMMON, "flush": 1, "reopen": 1},
        ROLLING,
        steps=80,
    ),
    Workload("run-errors", {"append_run": 8, "append": 2, **_COMMON, "fail_write": 1, "fail_sync": 1}, ROLLING),
    Workload(
        "extension",
        {
            "append": 10,
            "append_all": 2,
            "light": 3,
            "half": 1,
            "end": 1,
            "age": 1,
            "delete_expired": 1,
            **_COMMON,
            "flush": 1,
            "reopen": 1,
        },
        EXTENDED,
        steps=90,
        lives=4,
        sizes=SHORT,
    ),
    Workload(
        "inner-batch",
        {"inner_batch": 10, "append": 3, "append_all": 1, "age": 1, "delete_expired": 1, **_COMMON, "reopen": 1},
        ROLLING,
        steps=80,
        sizes=SHORT,
    ),
    Workload(
        "copy",
        {"copy": 10, "age": 1, "delete_expired": 1, **_COMMON, "flush": 1, "reopen": 1},
        ROLLING,
        steps=110,
    ),
    Workload("copy-late", {"copy_late": 10, **_COMMON, "flush": 1, "reopen": 1}, ROLLING, steps=90),
    Workload("copy-errors", {"copy": 10, **_COMMON, "flush": 1, "fail_write": 1, "fail_sync": 1}, ROLLING, steps=90),
    Workload("cut", {"append": 8, "append_all": 2, "cut": 1, **_COMMON, "flush": 1, "reopen": 1}, ROLLING, steps=90),
    Workload(
        "cut-copy",
        {"copy": 10, "cut": 1, "age": 1, "delete_expired": 1, **_COMMON, "flush": 1},
        ROLLING,
        steps=110,
    ),
    Workload(
        "cut-everything",
        {"append": 8, "append_all": 3, "half": 4, "end": 6, "cut": 2, **_COMMON, "flush": 1, "progress": 1},
        ROLLING,
        steps=90,
    ),
    Workload(
        "cut-delay", {"delayed": 8, "append": 1, "wait": 5, "persist_delays": 3, "cut": 1, **_COMMON}, ROLLING, steps=90
    ),
    Workload(
        "cut-timer", {"timed": 8, "append": 1, "tick": 9, "save_timers": 3, "cut": 1, **_COMMON}, ROLLING, steps=99
    ),
    Workload("reopen", {"append": 6, "append_all": 2, "half": 1, "end": 1, **_COMMON, "reopen": 2}, ROLLING),
    Workload("everything", {**_ALL, **_COMMON, "flush": 1, "age": 1, "delete_expired": 1, "progress": 1}, ROLLING),
)
WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for sync in _SYNC
    for workload in (
        sync,
        replace(
            sync, name=f"{sync.name}-async", settings=replace(sync.settings, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
        ),
    )
}
