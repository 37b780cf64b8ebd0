"""Messages with keys: stored by number, and looked for by each of their keys."""

from __future__ import annotations

from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import message, put

EVER = 1 << 60


def bodies_with_key(store: MessageStore, key: str, *, topic: str = "T", count: int = 64) -> list[bytes]:
    found = store.query_by_key(topic, key, count, 0, EVER)  # of large messages without their bodies
    whole = [store.message_at(each.commit_log_offset) for each in found]
    return [each.body for each in whole if each is not None]


def fill(store: MessageStore, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        put(store, message(b"%d" % number, UNIQ_KEY=f"u{number}", KEYS=f"k{number % 7} all"))


def check(store: MessageStore, count: int) -> None:
    assert [bodies_with_key(store, f"u{number}") for number in range(count)] == [
        [b"%d" % number] for number in range(count)
    ]
    assert len(bodies_with_key(store, "all", count=1000)) == count
    assert bodies_with_key(store, "k3") == [b"%d" % number for number in reversed(range(count)) if number % 7 == 3]
