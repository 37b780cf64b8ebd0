import random
import struct
from datetime import datetime

import pytest

from gateway.client.formats.unique_ids import UniqueIds, month_of
from wire.message.message_id import UniqueKeys


def test_ids_are_laid_out_as_java_reads_them() -> None:
    month_started_ms = int(datetime(2026, 11, 1).timestamp() * 1000)
    ids = UniqueIds("10.1.2.3", 0x1_0017, clock=lambda: month_started_ms + 12_345, random=random.Random(1))
    raw = [bytes.fromhex(ids.create()) for _ in range(2)]
    for index, one in enumerate(raw):
        ip, process_id, _, elapsed_ms, counter = struct.unpack(">4sHiiH", one)
        assert (ip, process_id, elapsed_ms, counter) == (bytes((10, 1, 2, 3)), 0x17, 12_345, index)
    assert raw[0][6:10] == raw[1][6:10], "one number for one maker"


def test_they_are_those_of_the_wire_package() -> None:
    now_ms = int(datetime(2026, 5, 17, 12).timestamp() * 1000)
    elapsed_ms = now_ms - month_of(now_ms)[0]
    instance_hash = random.Random(7).randrange(-(2**31), 2**31)
    ids = UniqueIds("10.1.2.3", 99, clock=lambda: now_ms, random=random.Random(7))
    keys = UniqueKeys(
        ip=bytes((10, 1, 2, 3)), process_id=99, instance_hash=instance_hash, elapsed_ms=lambda: elapsed_ms
    )
    assert [ids.create() for _ in range(70_000)] == [keys.create_unique_key() for _ in range(70_000)]


def test_an_ipv6_address_makes_long_ids() -> None:
    ids = UniqueIds("2001:db8::1", 1, clock=lambda: 0, random=random.Random(1))
    assert len(ids.create()) == 56


@pytest.mark.parametrize(
    ("now", "begin", "end"),
    [
        (datetime(2026, 11, 21, 14), datetime(2026, 11, 1), datetime(2026, 12, 1)),
        (datetime(2026, 12, 31, 23), datetime(2026, 12, 1), datetime(2027, 1, 1)),
        (datetime(2028, 2, 29), datetime(2028, 2, 1), datetime(2028, 3, 1)),
    ],
)
def test_months_are_local_ones(now: datetime, begin: datetime, end: datetime) -> None:
    assert month_of(int(now.timestamp() * 1000)) == (int(begin.timestamp() * 1000), int(end.timestamp() * 1000))


def test_a_new_month_begins_at_zero() -> None:
    moments = [
        int(datetime(2026, 11, 30, 23, 59, 59).timestamp() * 1000),
        int(datetime(2026, 12, 1).timestamp() * 1000),
    ]
    ids = UniqueIds("10.1.2.3", 1, clock=lambda: moments[0], random=random.Random(1))
    assert int(ids.create()[20:28], 16) == 30 * 86_400_000 - 1000
    del moments[0]
    assert int(ids.create()[20:28], 16) == 0


def test_many_ids_at_once_are_those_that_are_made_one_by_one() -> None:
    one, many = (UniqueIds("10.1.2.3", 1, clock=lambda: 5_000, random=random.Random(1)) for _ in range(2))
    expected = [one.create() for _ in range(65_540)]
    found = [many.create()]
    for count in (65_535, 0, 3):
        head, numbers = many.create_all(5_000, count)
        found += [f"{head}{number:04X}" for number in numbers]
    assert [*found, many.create()] == expected
