"""Turns of filters without a reactor: a test says when one ends."""

from __future__ import annotations

from collections.abc import Callable

from gateway.delivery.filters.turns import TURN_STEPS, FilterTurns


class ReactorTurns(FilterTurns):
    """Turns that a test ends."""

    def __init__(self) -> None:
        super().__init__(self._at_end)
        self._functions: list[Callable[[], None]] = []

    def _at_end(self, function: Callable[[], None]) -> None:
        self._functions.append(function)

    def use_up(self) -> None:
        """Leave no step of this turn."""
        self.spend(TURN_STEPS)

    def end(self) -> None:
        """End this turn."""
        functions, self._functions = self._functions, []
        for function in functions:
            function()

    @property
    def is_over(self) -> bool:
        """Return whether nothing waits for another turn."""
        return not self._functions
