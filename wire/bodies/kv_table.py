"""A table of names and values: what tools print, and what a name server keeps by namespace."""

from __future__ import annotations

from collections.abc import Mapping

from wire.bodies.declare import Body, field


class KVTable(Body):
    """Names and values."""

    table: Mapping[str, str] = field(default_factory=dict)
