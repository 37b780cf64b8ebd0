"""Many histories, in several processes: each takes every n-th seed, and tells how far it is."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from queue import Empty
from typing import Any, TypeAlias

from gateway.tests.simulation.history import Account, History
from gateway.tests.simulation.world import Violation

Kind: TypeAlias = type[History]
TOLD_EVERY_S = 1.0
COLLECTED_AFTER = 40
"""The histories after which garbage is looked for: a history leaves many circles, and looking for them is slow."""


def again(seed: int, kind: Kind = History) -> str:
    """Return how to see a history again."""
    return f"again: python -m gateway.tests.simulation{kind.option} --seed {seed} --trace"


def judge(seed: int, kind: Kind = History) -> tuple[Account | None, str]:
    """Play a history; return its account, or None and the broken promise."""
    try:
        return kind(seed).play(), ""
    except Violation as violation:
        return None, f"seed {seed}: {violation}"
    except Exception as error:  # noqa: BLE001 - whatever the product raises is a finding
        return None, f"seed {seed}: {error!r}"


def play_all(seeds: range, tell: Callable[[int, Account, list[tuple[int, str]]], None], kind: Kind) -> None:
    """Play histories; tell their number, their account and the findings since the last time, again and again."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    told_s = time.monotonic()
    count, total, found = 0, Account(), list[tuple[int, str]]()
    try:
        for number, seed in enumerate(seeds):
            account, violation = judge(seed, kind)
            count += 1
            if account is None:
                found.append((seed, violation))
            else:
                total.add(account)
            if number % COLLECTED_AFTER == 0:
                gc.collect()
            if time.monotonic() - told_s > TOLD_EVERY_S or found:
                tell(count, total, found)
                told_s = time.monotonic()
                count, total, found = 0, Account(), []
        tell(count, total, found)
    finally:
        gc.enable()


def _in_process(seeds: range, queue: Any, kind: Kind) -> None:
    play_all(seeds, lambda *told: queue.put(told), kind)
    queue.put(None)


def in_processes(
    first: int, count: int, processes: int, kind: Kind = History
) -> Iterator[tuple[int, Account, list[tuple[int, str]]]]:
    """Play histories in several processes; yield what they tell."""
    if processes == 1:
        told: list[tuple[int, Account, list[tuple[int, str]]]] = []
        for begin in range(first, first + count, COLLECTED_AFTER):
            play_all(range(begin, min(begin + COLLECTED_AFTER, first + count)), lambda *each: told.append(each), kind)
            yield from told
            told.clear()
        return
    context = multiprocessing.get_context("fork")
    queue: Any = context.Queue()
    workers = [
        context.Process(
            target=_in_process, args=(range(first + number, first + count, processes), queue, kind), daemon=True
        )
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    left = processes
    while left:
        try:
            each = queue.get(timeout=5)
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                raise RuntimeError("a process of the campaign ended without a word") from None
            continue
        if each is None:
            left -= 1
        else:
            yield each
    for worker in workers:
        worker.join()


def summary(total: Account) -> str:
    """Return an account as text."""
    return ", ".join(f"{field.name.replace('_', ' ')} {getattr(total, field.name):,.0f}" for field in fields(Account))
