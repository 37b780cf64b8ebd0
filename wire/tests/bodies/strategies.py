"""JSON values and bodies that hypothesis makes up, and the checks every body passes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from wire.bodies.declare import Body
from wire.bodies.topics import DataVersion

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
int32s = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | longs | doubles | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
data_versions = st.builds(DataVersion, longs, longs, longs)


def assert_comes_back(body: Body) -> None:
    """Both text forms are read as the body they were made of."""
    assert type(body).parse(body.build()) == body
    assert type(body).parse(body.build(java_form=False)) == body
    assert type(body).parse(memoryview(body.build())) == body
