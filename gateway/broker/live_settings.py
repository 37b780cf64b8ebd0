"""Settings that change while the broker runs: UPDATE_BROKER_CONFIG (25) of tools.

Parts that can go on with others follow. What is not declared ``Mark.LIVE`` is read at start only, and a request that
wants to change one of those is refused as a whole. Nothing is written to a file: the next start begins with its own
settings again. Upstream: ``Configuration.update``, which says yes to everything and rewrites the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from gateway.errors import RequestRefused
from gateway.settings import Settings
from gateway.settings.declare import Declaration, Mark, declarations, text_of
from gateway.settings.files import together
from gateway.settings.files.apache_keys import apache_keys
from gateway.telemetry.logs import EventLog
from wire.codes import ResponseCode

NEVER = frozenset({"configBlackList", "brokerConfigPath"})
"""Upstream's black list."""

log = EventLog("settings")


@runtime_checkable
class UsesSettings(Protocol):
    """A part that can go on with changed settings."""

    def use(self, settings: Settings) -> None:
        """Go on with them."""


class LiveSettings:
    """The settings in effect, and who follows them."""

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self.changes = 0
        self._followers: list[UsesSettings] = []

    def follow(self, part: object) -> None:
        """Tell a part of changes, if it can go on with other settings."""
        if isinstance(part, UsesSettings):
            self._followers.append(part)

    def change(self, wanted: Mapping[str, str]) -> None:
        """Change settings by their keys: all of them or, when one is refused, none.

        :raises RequestRefused: NO_PERMISSION for a setting that is read at start only, INVALID_PARAMETER for one that
            is not known, a value that cannot be, or two settings that do not fit together.
        """
        values = {}
        for key, text in wanted.items():
            declaration, value = _read(key, text)
            if value == getattr(self.current, declaration.attribute):
                continue
            if Mark.LIVE not in declaration.marks:
                raise RequestRefused(
                    ResponseCode.NO_PERMISSION,
                    f"{key} is read at start only: change it in the configuration file, the environment or the "
                    "command line, and restart the broker",
                )
            values[declaration.attribute] = value
        if not values:
            return
        settings = replace(self.current, **values)
        _check(settings, self.current)
        for attribute, value in values.items():
            before = text_of(getattr(self.current, attribute))
            log.warning("setting changed until the next start", setting=attribute, before=before, now=text_of(value))
        self.current = settings
        self.changes += 1
        for part in self._followers:
            part.use(settings)


def _read(key: str, text: str) -> tuple[Declaration, Any]:
    """Declaration and value of an entry."""
    if key in NEVER:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"{key} cannot be changed by a request")
    declaration = declarations(Settings).get(key)
    if declaration is None:
        what = "has no effect in this broker" if key in apache_keys() else "is no setting"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{key} {what}")
    try:
        return declaration, declaration.read(text)
    except ValueError as error:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{key}={text}: expected {error}") from error


def _check(settings: Settings, before: Settings) -> None:
    """Refuse what does not fit together, of what can be changed, unless the broker was started like that."""
    found = together.conflict_of_space(settings)
    if found is not None and found != together.conflict_of_space(before):
        both = " and ".join(together.assigned(settings, key) for key in found.keys)
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{both}: {found.reason}; change both at once")
