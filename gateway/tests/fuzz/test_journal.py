"""A journal can be kept, sent again, and made as small as the failure allows."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

from gateway.tests.fuzz.journal import MAX_ENTRIES, Entry, Journal, load, replay, save, shrink


def entries(count: int) -> list[Entry]:
    return [Entry(number // 5, "broker", b"%d" % number if number % 5 < 4 else None) for number in range(count)]


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save(tmp_path / "made" / "journal", entries(20))
    assert load(tmp_path / "made" / "journal") == entries(20)


def test_the_oldest_go(tmp_path: Path) -> None:
    journal = Journal()
    for number in range(MAX_ENTRIES + 5):
        journal.add(number, "broker", b"x")
    assert len(journal.entries) == MAX_ENTRIES
    assert journal.entries[0].connection == 5


def test_the_least_that_fails_is_found() -> None:
    culprits = {b"31", b"152"}

    def fails(some: Sequence[Entry]) -> bool:
        return culprits <= {entry.data for entry in some}

    least = shrink(entries(400), fails, max_tries=200)
    assert [entry.data for entry in least] == [b"31", b"152"]


def test_a_search_ends_with_the_best_so_far() -> None:
    tries = 0

    def fails(some: Sequence[Entry]) -> bool:
        nonlocal tries
        tries += 1
        return any(entry.data == b"7" for entry in some)

    least = shrink(entries(400), fails, max_tries=5)
    assert tries == 5
    assert b"7" in {entry.data for entry in least}
    assert len(least) < 400


def test_a_replay_sends_each_connection_by_itself() -> None:
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                link, _address = server.accept()
                with link:
                    data = b""
                    while part := link.recv(100):
                        data += part
                        link.sendall(b"answer")
                received.append(data)

        thread = threading.Thread(target=serve)
        thread.start()
        some = [Entry(1, "broker", b"a"), Entry(1, "broker", b"b"), Entry(1, "broker", None), Entry(2, "broker", b"c")]
        replay(some, {"broker": server.getsockname()[:2]})
        thread.join(10)
    assert received == [b"ab", b"c"]
