"""Messages and properties that hypothesis makes up."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage

QUICK = settings(max_examples=60, deadline=None)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)

property_texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=12
)
property_maps = st.dictionaries(property_texts, property_texts, max_size=6)

topics = st.text(st.sampled_from("abcXYZ019%_-|é漢😀"), min_size=1, max_size=60) | st.text(
    "t", min_size=120, max_size=255
)

messages = st.builds(
    OutgoingMessage,
    topic=topics,
    queue_id=int32s,
    flag=int32s,
    sys_flag=int32s,
    born_at_ms=int64s,
    born_host=hosts,
    store_host=hosts,
    reconsume_times=int32s,
    prepared_transaction_offset=int64s,
    body=st.binary(max_size=300),
    properties=property_maps.map(build_properties),
)
