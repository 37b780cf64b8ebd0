"""The question: what an SQL92 filter costs, for each set of properties, each record and each pull that finds little.

    python -m benchmarks.filters

Processor time of this process, the best of several runs. "properties" is the expression alone, "record" a look into one
of 64 stored records of 1 KiB, of which no two have the same key. The pulls look for 32 messages each, of which one in a
hundred matches. PYTHONSAFEPATH=1 and PYTHONPATH=build/accelerated:. time the compiled packages.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from benchmarks.scale import HOST
from gateway.clock import wall_clock_ms
from gateway.delivery.filters.message_filter import MessageFilter
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.sql92 import sql92_filter
from gateway.delivery.filters.sql92_grammar import parse_expression
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.reading.wanted import Wanted, WantedCodes
from wire.disk.consume_queue import build_unit
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record
from wire.message.tags import tags_code

EXPRESSIONS = (
    "size = 7",
    "size > 5",
    "price > 5.5",
    "size BETWEEN 1 AND 10",
    "colour = 'red'",
    "colour IN ('red', 'green', 'blue')",
    "colour IS NOT NULL",
    "colour STARTSWITH 'r'",
    "size > 5 AND colour = 'red'",
    "(size > 5 AND colour = 'red') OR (price < 2.5 AND NOT (shop = 'x')) OR missing IS NOT NULL",
)
PROPERTIES = {
    "size": "7",
    "colour": "red",
    "price": "6.25",
    "shop": "main",
    "KEYS": "k1",
    "UNIQ_KEY": "7F0000010000" * 2,
}
MOST_US = 2.0
"""What the project promises for a simple expression."""
RUNS = 5
REPEATS = 20_000
MESSAGES = 8_000
UNLIMITED = 1 << 60
"""Steps that no table here takes."""
RARE = 100
"""One message in so many matches."""
BODY = bytes(1024)


def main() -> None:
    """Print one table."""
    records = [build_record(_message({**PROPERTIES, "UNIQ_KEY": f"{number:024}"}), 0, 0, 1) for number in range(64)]
    data, starts = b"".join(records), accumulate(map(len, records), initial=0)
    units = b"".join(build_unit(start, len(each), 0) for start, each in zip(starts, records, strict=False))
    print(f"{'µs for each':<96}{'properties':>12}{'record':>10}")
    for expression in EXPRESSIONS:
        wanted = sql92_filter(expression)
        matches, choose = wanted.matches, wanted.choose_within(Work(UNLIMITED))
        properties_us = _best(lambda: [matches(PROPERTIES) for _ in range(REPEATS)]) / REPEATS  # noqa: B023
        turns = REPEATS // len(records)
        record_us = _best(lambda: [choose(data, 0, units, 0) for _ in range(turns)]) / turns / len(records)  # noqa: B023
        is_simple = " OR " not in expression and (" AND " not in expression or " BETWEEN " in expression)
        verdict = ("ok" if properties_us <= MOST_US else "MISSED") if is_simple else ""
        print(f"{expression:<96}{properties_us:>12.2f}{record_us:>10.2f} {verdict}")
    longest = " OR ".join(["size = 5"] * 1_000)
    parsed_ms = _best(lambda: parse_expression(longest)) / 1000
    print(f"an expression of {len(longest):,} characters is parsed in {parsed_ms:.0f} ms")
    with tempfile.TemporaryDirectory(prefix="filters-") as directory:
        _pulls(Path(directory))


def _pulls(directory: Path) -> None:
    store = MessageStore(
        directory, StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH), StoreSurroundings(clock_ms=wall_clock_ms)
    )
    store.open()
    for number in range(MESSAGES):
        rare = number % RARE == 0
        store.append(
            _message({**PROPERTIES, "TAGS": "rare" if rare else "often", "size": str(int(rare))}), lambda _: None
        )
    by_sql = MessageFilter(None, sql92_filter("size = 1"))
    wanted = tags_code("rare")
    for name, filters in (
        ("tag", Wanted(WantedCodes(frozenset({wanted})))),
        ("SQL92", Wanted(by_record=by_sql.choose_within(Work(UNLIMITED)))),
    ):

        def read_all() -> None:
            offset = 0
            while offset < MESSAGES:
                result = store.get_messages_now("orders", 0, offset, 32, 1 << 18, filters)  # noqa: B023
                assert result is not None, "everything is in memory"
                offset = result.next_begin_offset

        cost_us = _best(read_all) / MESSAGES
        print(f"reading {MESSAGES:,} messages of which 1 % match by {name}: {cost_us:.2f} µs a message")
    store.close()


def _message(properties: dict[str, str]) -> OutgoingMessage:
    return OutgoingMessage("orders", 0, 0, 0, 1, HOST, HOST, 0, 0, BODY, build_properties(properties))


def _best(work: Callable[[], object]) -> float:
    """Processor time in microseconds."""
    best = float("inf")
    for _ in range(RUNS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best * 1e6


if __name__ == "__main__":
    main()
