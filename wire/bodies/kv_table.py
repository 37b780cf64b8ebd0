"""A table of names and values: what tools print, and what a name server keeps by namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wire.bodies.declare import Body


@dataclass(frozen=True, slots=True)
class KVTable(Body):
    """Names and values."""

    table: Mapping[str, str] = field(default_factory=dict)
