"""Looking for the next record of a damaged file."""

from __future__ import annotations

import mmap
from pathlib import Path

from gateway.store_tool.checks.log_walk import next_intact
from gateway.tests.store_tool.small_directory import fill, log_file, records
from wire.message.record_layout import FILLER_HEAD, MAGIC_BLANK

PAGE = mmap.PAGESIZE
NO_ACCESS = 0


def test_the_next_record_or_filler_is_found_in_any_bytes(tmp_path: Path) -> None:
    fill(tmp_path)
    content = memoryview(log_file(tmp_path).read_bytes())
    places = [position for position, _ in records(tmp_path)]
    filler = places[-1] + records(tmp_path)[-1][1]
    for before, after in zip(places, [*places[1:], filler], strict=True):
        assert next_intact(content, before + 1, len(content), 0) == after
    assert FILLER_HEAD.unpack_from(content, filler)[1] == MAGIC_BLANK
    assert next_intact(content, filler + 1, len(content), 0) == len(content)


def test_nothing_behind_the_end_of_a_map_is_read() -> None:
    """A process that does so is killed; ``mmap.find`` of Python 3.11.2, Debian's, does."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    for pages in range(1, 257):
        # A new map usually lies right below the one made before.
        with (
            mmap.mmap(-1, PAGE * pages, flags=flags, prot=NO_ACCESS),
            mmap.mmap(-1, PAGE * (pages + 256), flags=flags, prot=mmap.PROT_READ) as data,
        ):
            size = len(data)
            assert all(next_intact(data, size - back, size, 0) == size for back in range(100, 110))
