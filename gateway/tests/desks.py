"""Desks with the few parts that a test's requests work with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from gateway.settings import Settings

if TYPE_CHECKING:
    from gateway.broker.desk import Desk


def desk_of(**parts: Any) -> Desk:
    """Make a desk on which only these parts lie, and the settings of a broker that were left as they are."""
    return cast("Desk", SimpleNamespace(**{"settings": Settings(), **parts}))
