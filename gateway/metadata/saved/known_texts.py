"""The JSON text of parts of a table, made once for each: of ten thousand topics few change between two saves.

A part never changes: where the table changes, it gets another object. So the same object has the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wire.bodies.declare import JsonObject
from wire.bodies.fastjson import PreparedText, prepared_text

FILE_DEPTH = 2
"""Of the parts in a file: they stand in a table in an object."""


class KnownTexts:
    """The texts of a table as it was last asked for; by one thread at a time.

    :param depth: as for ``prepared_text``.
    """

    def __init__(self, depth: int | None) -> None:
        self._depth = depth
        self._known: dict[str, tuple[object, PreparedText]] = {}

    def of(self, parts: Mapping[str, JsonObject] | Mapping[str, Mapping[int, int]]) -> Mapping[str, Any]:
        """What stands for the parts in a body or file."""
        known, fresh = self._known, {}
        for name, part in parts.items():
            found = known.get(name)
            if found is None or found[0] is not part:
                value = part.to_json() if isinstance(part, JsonObject) else part
                found = part, prepared_text(value, depth=self._depth)
            fresh[name] = found
        self._known = fresh
        return {name: text for name, (_, text) in fresh.items()}
