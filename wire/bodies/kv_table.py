"""A table of names and values: for tools to print, and for a namespace of a name server."""

from __future__ import annotations

from collections.abc import Mapping

from wire.bodies.declare import Body, field


class KVTable(Body):
    """Names and values."""

    table: Mapping[str, str] = field(default_factory=dict)
