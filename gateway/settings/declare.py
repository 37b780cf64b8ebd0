"""How a setting is declared: a dataclass field whose metadata says everything about it.

    max_message_size: int = setting(
        4_194_304, "maxMessageSize", "Largest message body accepted.", unit="bytes", within=Range(1)
    )

The classes go without ``repr`` and ``eq``: nobody asks these of hundreds of settings, and every start would make them.
The key is Apache RocketMQ's own name, or starts with ``gateway.`` where Apache has none. Texts are read
more strictly than Apache does (which keeps its default, silently, when a number does not parse).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

OWN_PREFIX = "gateway."
"""What the keys that Apache RocketMQ does not have begin with."""
OWN_KEYS = frozenset({"transactionStateStore"})
"""Keys of ours without it: so named since all generations of Apache RocketMQ could have had them."""
ENVIRONMENT_PREFIX = "ROCKETMQ_GATEWAY_"

Value = bool | int | float | str | StrEnum | Path
T = TypeVar("T", bound=Value)

_METADATA = "setting"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{0,9})?")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}|\$\{user\.home\}|^~(?=/|$)")


class Mark(Flag):
    """What else is true of a setting."""

    NONE = 0
    LIMIT = auto()
    """Something is refused, cut or closed beyond it: ``docs/limits.md`` has a row for it."""
    LIVE = auto()
    """A running broker goes on with another value (``broker/live_settings.py``)."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a setting may have, in its unit, both ends included; None: as large as one likes."""

    minimum: int | float
    maximum: int | float | None = None

    def __contains__(self, value: int | float) -> bool:
        return self.minimum <= value and (self.maximum is None or value <= self.maximum)

    def __str__(self) -> str:
        """The end of a sentence that begins with the kind of number."""
        if self.minimum == self.maximum:
            return f", {self.minimum} only"
        return f", at least {self.minimum}" if self.maximum is None else f" from {self.minimum} to {self.maximum}"


Within = Range | Callable[[str], str | None]
"""What values are good: a range of numbers, or a function that returns what it expected instead of a text, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One setting, without its value."""

    attribute: str = ""
    key: str
    kind: type[Any]
    sentence: str
    unit: str = ""
    within: Within | None = None
    marks: Mark = Mark.NONE

    @property
    def environment(self) -> str:
        """The environment variable that sets it."""
        return environment_name(self.key)

    @property
    def is_own(self) -> bool:
        """Whether Apache RocketMQ knows no such key."""
        return self.key.startswith(OWN_PREFIX) or self.key in OWN_KEYS

    @property
    def expected(self) -> str:
        """What a value looks like, for messages and documents: ``an integer from 1 to 72 (hours)``."""
        if issubclass(self.kind, StrEnum):
            return " or ".join(member.value for member in self.kind)
        unit = f" ({self.unit})" if self.unit else ""
        return f"{_KIND_NAMES[self.kind]}{self.within if isinstance(self.within, Range) else ''}{unit}"

    def read(self, text: str) -> Value:
        """The value that ``text`` stands for; ValueError whose text is what was expected."""
        value = self._parse(text.strip())
        if isinstance(self.within, Range):
            if isinstance(value, int | float) and value not in self.within:
                raise ValueError(self.expected)
        elif self.within is not None and (expected := self.within(str(value))) is not None:
            raise ValueError(expected)
        return value

    def _parse(self, text: str) -> Value:
        if self.kind is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if self.kind is int and _INTEGER.fullmatch(text):
            return int(text)
        if self.kind is float and _DECIMAL.fullmatch(text):
            return float(text)
        if self.kind is str:
            return text
        if self.kind is Path and text:
            return Path(with_home(text)).absolute()
        if issubclass(self.kind, StrEnum) and text.upper() in self.kind.__members__:
            return self.kind[text.upper()]
        raise ValueError(self.expected)


_KIND_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    Path: "a path",
}


def setting(
    default: T,
    key: str,
    sentence: str,
    *,
    unit: str = "",
    within: Within | None = None,
    marks: Mark = Mark.NONE,
) -> T:
    """Declare a setting with a fixed default; the type of the default is the type of the setting."""
    declaration = Declaration(key=key, kind=type(default), sentence=sentence, unit=unit, within=within, marks=marks)
    field: T = dataclasses.field(default=default, metadata={_METADATA: declaration})
    return field


def machine_setting(
    kind: type[T],
    make: Callable[[], T],
    key: str,
    sentence: str,
    *,
    within: Within | None = None,
) -> T:
    """Declare a setting whose default depends on the machine; ``make`` is called when it is needed."""
    declaration = Declaration(key=key, kind=kind, sentence=sentence, within=within)
    field: T = dataclasses.field(default_factory=make, metadata={_METADATA: declaration})
    return field


@cache
def declarations(settings: type[Any]) -> Mapping[str, Declaration]:
    """All settings of a settings dataclass by key, in the order of the source."""
    found = [
        dataclasses.replace(field.metadata[_METADATA], attribute=field.name) for field in dataclasses.fields(settings)
    ]
    return {declaration.key: declaration for declaration in found}


def environment_name(key: str) -> str:
    """``flushDiskType`` becomes ``ROCKETMQ_GATEWAY_FLUSH_DISK_TYPE``; the own prefix is left out."""
    return ENVIRONMENT_PREFIX + _WORD_START.sub("_", key.removeprefix(OWN_PREFIX)).upper()


def with_home(text: str) -> str:
    """A path with ``$HOME``, ``${HOME}``, Java's ``${user.home}`` and a leading ``~`` filled in."""
    return _HOME.sub(lambda _: str(Path.home()), text)


def text_of(value: object) -> str:
    """A value as it is written in a configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.value if isinstance(value, StrEnum) else str(value)
