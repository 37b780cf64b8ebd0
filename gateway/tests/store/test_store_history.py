"""Whatever is appended, however often the store is closed or killed: what was acknowledged is there, once, in order."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.settings.store import StoreSettings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.left_open import given_back
from gateway.tests.store.small_store import ASYNC, SMALL, Disk, Executor, message, read_all, small_store

QUEUES = [("A", 0), ("A", 1), ("B", 0)]
NAMES = st.sampled_from(QUEUES)
SIZES = st.sampled_from([0, 1, 100, 900, 1900])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NAMES, SIZES),
        st.tuples(st.just("together"), st.lists(st.tuples(NAMES, SIZES), max_size=3)),
        st.tuples(st.just("turn")),
        st.tuples(st.just("work")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("query")),
        st.tuples(st.just("close")),
        st.tuples(st.just("kill")),
    ),
    max_size=25,
)


class History:
    """A store that lives through steps, and what it acknowledged."""

    def __init__(self, top: Path, settings: StoreSettings) -> None:
        self._top = top
        self._settings = settings
        self._lives = 0
        self._number = 0
        self._acknowledged: dict[bytes, tuple[str, int, int]] = {}
        self._appended: set[bytes] = set()
        self.directory = top / "0"
        self.begin()

    def begin(self) -> None:
        self._executor = executor = Executor()
        self.store: MessageStore = small_store(
            self.directory, self._settings, disk=Disk(), soon=executor.soon, in_thread=executor.in_thread
        )
        self.store.open()
        self.check()

    def _body(self, size: int) -> bytes:
        self._number += 1
        body = b"%d:" % self._number + b"x" * size
        self._appended.add(body)
        return body

    def _stored(self, result: PutResult) -> None:
        assert result.status is PutStatus.PUT_OK
        self._acknowledged[result.message.body] = (result.topic, result.queue_id, result.queue_offset)

    def _all_stored(self, results: list[PutResult]) -> None:
        for result in results:
            self._stored(result)

    def append(self, name: tuple[str, int], size: int) -> None:
        body = self._body(size)
        self.store.append(message(body, topic=name[0], queue_id=name[1], KEYS=body[:8].decode()), self._stored)

    def together(self, parts: list[tuple[tuple[str, int], int]]) -> None:
        messages = [message(self._body(size), topic=name[0], queue_id=name[1]) for name, size in parts]
        self.store.append_all(messages, self._all_stored)

    def turn(self) -> None:
        self._executor.run_turn()

    def work(self) -> None:
        if self._executor.threads:
            self._executor.work()()

    def flush(self) -> None:
        assert self.store.flush()

    def query(self) -> None:
        for body, (topic, _, _) in list(self._acknowledged.items())[-3:]:
            key = body[:8].decode()
            found = [found.body for found in self.store.query_by_key(topic, key, 1000, 0, 1 << 60)]
            assert len(found) == len(set(found))
            assert all(other[:8] == body[:8] for other in found)

    def close(self) -> None:
        self._executor.run()
        self.store.close()
        self.begin()

    def kill(self) -> None:
        self._lives += 1
        killed, self.directory = self.directory, self._top / str(self._lives)
        shutil.copytree(killed, self.directory)
        self.begin()

    def check(self) -> None:
        found: dict[bytes, tuple[str, int, int]] = {}
        for topic, queue_id in QUEUES:
            for offset, stored in enumerate(read_all(self.store, topic, queue_id)):
                assert stored.queue_offset == offset, "offsets are dense"
                assert stored.body not in found, "once"
                assert (stored.topic, stored.queue_id) == (topic, queue_id)
                found[stored.body] = (topic, queue_id, offset)
        assert found.keys() <= self._appended
        assert {body: found.get(body) for body in self._acknowledged} == self._acknowledged


@pytest.mark.parametrize("mode", [SMALL, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("log_file_bytes", [4096, 8192])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_acknowledged_messages_survive_any_history(
    mode: StoreSettings, log_file_bytes: int, steps: list[tuple[Any, ...]]
) -> None:
    chosen = replace(mode, mapped_file_size_commit_log=log_file_bytes)
    with tempfile.TemporaryDirectory() as top, given_back():
        history = History(Path(top), chosen)
        for name, *arguments in steps:
            if name == "together" and not _fits(arguments[0], log_file_bytes):
                continue
            getattr(history, str(name))(*arguments)
        history.close()
        history.kill()


def _fits(parts: list[tuple[Any, int]], log_file_bytes: int) -> bool:
    return 0 < sum(size + 200 for _, size in parts) <= log_file_bytes


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(count=st.integers(1, 12), cut=st.integers(1, 400), zeros=st.booleans())
def test_a_tail_damaged_anywhere_never_costs_what_lies_before_it(count: int, cut: int, zeros: bool) -> None:
    with tempfile.TemporaryDirectory() as top, given_back():
        history = History(Path(top), ASYNC)
        for _ in range(count):
            history.append(("A", 0), 100)
        history.turn()
        directory = Path(top) / "killed"
        shutil.copytree(history.directory, directory)
        end = history.store.max_commit_log_offset
        start = max(end - cut, 0)
        path = directory / "commitlog" / f"{0:020d}"
        data = path.read_bytes()
        damage = bytes(end - start) if zeros else bytes(255 - byte for byte in data[start:end])
        path.write_bytes(data[:start] + damage + data[end:])
        whole = [
            stored
            for stored in read_all(history.store, "A", 0)
            if stored.commit_log_offset + stored.total_size <= start
        ]
        store = small_store(directory, ASYNC)
        store.open()
        found = read_all(store, "A", 0)
        kept = [stored.body for stored in found]
        assert kept[: len(whole)] == [stored.body for stored in whole]
        # A record's checksum covers its body only: damage to the properties alone may stay unseen.
        assert kept == [stored.body for stored in read_all(history.store, "A", 0)][: len(kept)]
