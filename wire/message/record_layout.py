"""The layout of a stored message record, declared once; everything about its bytes is derived from this declaration.

    head (fixed: 88 bytes with IPv4 hosts, 100 or 112 with IPv6 ones) · body
    · topic length (int8 in V1, int16 in V2) · topic · properties length (int16) · properties

Code asks for an offset by name and never states a number. V2 exists for topics over 127 bytes (%RETRY% and %DLQ%
names); clients before 5.0 cannot read V2. ``record.py`` reads and writes records.
"""

from __future__ import annotations

from collections.abc import Mapping

from wire.fixed_layout import FixedLayout, Int32sb, Int64sb, octets
from wire.message.flags import SysFlag
from wire.message.message_id import HOST_V4_BYTES, HOST_V6_BYTES

# On disk and on the wire: never change.
MAGIC_V1 = 0xDAA320A7 - 0x1_0000_0000
MAGIC_V2 = 0xDAA320AB - 0x1_0000_0000
MAGIC_BLANK = 0xCBD43194 - 0x1_0000_0000
"""The magic of the filler at the end of a commit log file."""

MAX_TOPIC_V1_BYTES = 127
MAX_TOPIC_BYTES = 255
"""The longest topic in bytes that a broker of 5.x takes; V2's int16 length could hold more."""
END_OF_FILE_BYTES = 8
"""The bytes that must be left in a file after each record, so that a filler always has room."""


def head_layout(*, born_v6: bool, store_v6: bool) -> FixedLayout:
    """Return the fixed part before the body, for one combination of address families."""
    born = HOST_V6_BYTES if born_v6 else HOST_V4_BYTES
    store = HOST_V6_BYTES if store_v6 else HOST_V4_BYTES
    return FixedLayout(
        f"record head, hosts of {born} and {store} bytes",
        total_size=Int32sb,
        magic=Int32sb,
        body_crc=Int32sb,
        queue_id=Int32sb,
        flag=Int32sb,
        queue_offset=Int64sb,
        commit_log_offset=Int64sb,
        sys_flag=Int32sb,
        born_at_ms=Int64sb,
        born_host=octets(born),
        stored_at_ms=Int64sb,
        store_host=octets(store),
        reconsume_times=Int32sb,
        prepared_transaction_offset=Int64sb,
        body_bytes=Int32sb,
    )


HEADS: Mapping[int, FixedLayout] = {
    flags: head_layout(born_v6=bool(flags & SysFlag.BORN_HOST_V6), store_v6=bool(flags & SysFlag.STORE_HOST_V6))
    for flags in (0, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_MASK)
}
"""The heads by the two address bits of ``sys_flag``."""


FILLER_HEAD = FixedLayout("end-of-file filler", total_size=Int32sb, magic=Int32sb)
FLAGS_AT = HEADS[0].offset("sys_flag") + 3
"""The position of the byte of ``sys_flag`` that holds the address bits.

The byte is before the first host, at the same position in all heads.
"""
HEAD_BY_BYTE = tuple(HEADS[byte & SysFlag.HOSTS_MASK] for byte in range(256))
"""The heads by the value of the byte at ``FLAGS_AT``."""
MIN_TAIL_BYTES = 3
"""The bytes of a topic length and a properties length."""
MIN_RECORD_BYTES = HEADS[0].size + MIN_TAIL_BYTES
