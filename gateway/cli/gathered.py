"""Options that belong together reach a command as one value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

Command = Callable[..., Any]


def gathered(parameter: str, kind: Callable[..., object]) -> Callable[[Command], Command]:
    """Pass the options that have the names of ``kind``'s parameters to a command as one value.

    Stands below the options, next to the command.

    :param parameter: of the command; it gets what ``kind`` makes of the options.
    """
    names = tuple(signature(kind).parameters)

    def add(command: Command) -> Command:
        @wraps(command)
        def with_value(*args: Any, **given: Any) -> Any:
            value = kind(**{name: given.pop(name) for name in names})
            return command(*args, **{parameter: value}, **given)

        return with_value

    return add
