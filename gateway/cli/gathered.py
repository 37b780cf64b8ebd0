"""A decorator that passes related options to a command as one value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

Command = Callable[..., Any]


def gathered(parameter: str, kind: Callable[..., object]) -> Callable[[Command], Command]:
    """Pass the options named like ``kind``'s parameters to a command as one value.

    The decorator stands below the options, next to the command.

    :param parameter: the command's parameter that gets the result of ``kind``.
    """
    names = tuple(signature(kind).parameters)

    def add(command: Command) -> Command:
        @wraps(command)
        def with_value(*args: Any, **given: Any) -> Any:
            value = kind(**{name: given.pop(name) for name in names})
            return command(*args, **{parameter: value}, **given)

        return with_value

    return add
