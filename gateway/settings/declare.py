"""The declaration of a setting: a dataclass field whose metadata has every fact about the setting.

    max_message_size: int = setting(
        4_194_304, "maxMessageSize", "Largest message body accepted.", Range(1, unit="bytes")
    )

The classes have no ``repr`` and ``eq``: no code needs them, and every start would have to make them for hundreds of
settings. The key is Apache RocketMQ's own name, or starts with ``gateway.`` if Apache has none. Texts are read more
strictly than by Apache, which silently keeps its default if a number does not parse.
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
"""The prefix of keys that Apache RocketMQ does not have."""
OWN_KEYS = frozenset({"transactionStateStore"})
"""Our own keys without the prefix, so named because all generations of Apache RocketMQ could have had them."""
ENVIRONMENT_PREFIX = "ROCKETMQ_GATEWAY_"

MASK = "******"
"""The text that stands for a secret."""

Value = bool | int | float | str | StrEnum | Path
T = TypeVar("T", bound=Value)

_METADATA = "setting"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{0,9})?")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}|\$\{user\.home\}|^~(?=/|$)")


class Mark(Flag):
    """Further properties of a setting."""

    NONE = 0
    LIMIT = auto()
    """A limit beyond which something is refused, cut or closed; ``docs/limits.md`` has a row for the setting."""
    LIVE = auto()
    """A setting that can change while the broker runs (``broker/live_settings.py``)."""
    SECRET = auto()
    """A setting whose value nobody is shown."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a setting may have, in its unit, both ends included; maximum None: no upper limit."""

    minimum: int | float
    maximum: int | float | None = None
    unit: str = ""

    def __contains__(self, value: int | float) -> bool:
        return self.minimum <= value and (self.maximum is None or value <= self.maximum)

    def __str__(self) -> str:
        """Return the end of a sentence that begins with the kind of number."""
        unit = f" ({self.unit})" if self.unit else ""
        if self.minimum == self.maximum:
            return f", {self.minimum} only{unit}"
        if self.maximum is None:
            return f", at least {self.minimum}{unit}"
        return f" from {self.minimum} to {self.maximum}{unit}"


Within = Range | Callable[[str], str | None]
"""The allowed values: a range of numbers, or a function from a text to what was expected instead, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One setting, without its value."""

    attribute: str = ""
    key: str
    kind: type[Any]
    sentence: str
    within: Within | None = None
    marks: Mark = Mark.NONE

    @property
    def environment(self) -> str:
        """The environment variable that sets the setting."""
        return environment_name(self.key)

    @property
    def unit(self) -> str:
        """The unit of the numbers; "" if there is none."""
        return self.within.unit if isinstance(self.within, Range) else ""

    @property
    def is_own(self) -> bool:
        """True if Apache RocketMQ knows no such key."""
        return self.key.startswith(OWN_PREFIX) or self.key in OWN_KEYS

    @property
    def expected(self) -> str:
        """The form of a value, for messages and documents: ``an integer from 1 to 72 (hours)``."""
        if issubclass(self.kind, StrEnum):
            return " or ".join(member.value for member in self.kind)
        return f"{_KIND_NAMES[self.kind]}{self.within if isinstance(self.within, Range) else ''}"

    def shown(self, value: object) -> str:
        """Return a value for people and for answers, in the form of a configuration file; a secret is masked."""
        return MASK if Mark.SECRET in self.marks and value else text_of(value)

    def read(self, text: str) -> Value:
        """Return the value that ``text`` stands for.

        :raises ValueError: the text is wrong; the error's text is what was expected.
        """
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


def setting(default: T, key: str, sentence: str, within: Within | None = None, *, marks: Mark = Mark.NONE) -> T:
    """Declare a setting with a fixed default; the type of the default is the type of the setting."""
    declaration = Declaration(key=key, kind=type(default), sentence=sentence, within=within, marks=marks)
    field: T = dataclasses.field(default=default, metadata={_METADATA: declaration})
    return field


def machine_setting(kind: type[T], make: Callable[[], T], key: str, sentence: str, within: Within | None = None) -> T:
    """Declare a setting whose default depends on the machine; ``make`` is called when the default is needed."""
    declaration = Declaration(key=key, kind=kind, sentence=sentence, within=within)
    field: T = dataclasses.field(default_factory=make, metadata={_METADATA: declaration})
    return field


@cache
def declarations(settings: type[Any]) -> Mapping[str, Declaration]:
    """Return all settings of a settings dataclass by key, in the order of the source."""
    found = [
        dataclasses.replace(field.metadata[_METADATA], attribute=field.name) for field in dataclasses.fields(settings)
    ]
    return {declaration.key: declaration for declaration in found}


def environment_name(key: str) -> str:
    """Return the environment variable of a key.

    ``flushDiskType`` becomes ``ROCKETMQ_GATEWAY_FLUSH_DISK_TYPE``, and ``tls.server.mode`` becomes
    ``ROCKETMQ_GATEWAY_TLS_SERVER_MODE``; the prefix ``gateway.`` is left out.
    """
    return ENVIRONMENT_PREFIX + _WORD_START.sub("_", key.removeprefix(OWN_PREFIX)).replace(".", "_").upper()


def with_home(text: str) -> str:
    """Fill in ``$HOME``, ``${HOME}``, Java's ``${user.home}`` and a leading ``~`` in a path."""
    return _HOME.sub(lambda _: str(Path.home()), text)


def text_of(value: object) -> str:
    """Return a value in the form of a configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.value if isinstance(value, StrEnum) else str(value)
