"""The JSON texts of a table's parts, made once for each part: few of ten thousand topics change between two saves.

A part never changes: a change of the table replaces the part with another object. So an unchanged object has an
unchanged text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wire.bodies.declare import JsonObject
from wire.bodies.fastjson import PreparedText, prepared_text

FILE_DEPTH = 2
"""The depth of the parts in a file: they are inside a table inside an object."""


class KnownTexts:
    """The texts of a table as of the last call; for one thread at a time.

    :param depth: the same as in ``prepared_text``.
    """

    def __init__(self, depth: int | None) -> None:
        self._depth = depth
        self._known: dict[str, tuple[object, PreparedText]] = {}

    def of(self, parts: Mapping[str, JsonObject] | Mapping[str, Mapping[int, int]]) -> Mapping[str, Any]:
        """Return the texts that stand for the parts in a body or file."""
        known, fresh = self._known, {}
        for name, part in parts.items():
            found = known.get(name)
            if found is None or found[0] is not part:
                value = part.to_json() if isinstance(part, JsonObject) else part
                found = part, prepared_text(value, depth=self._depth)
            fresh[name] = found
        self._known = fresh
        return {name: text for name, (_, text) in fresh.items()}
