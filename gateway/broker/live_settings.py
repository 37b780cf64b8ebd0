"""Settings that change while the broker runs: UPDATE_BROKER_CONFIG (25) of tools.

The whole broker reads one object of settings, and a change is written into this object. So a live setting holds at once
wherever it is read, as long as nobody keeps a copy; a test looks for copies. A setting that is not declared
``Mark.LIVE`` is read only at the start, and a request that wants to change such a setting is refused as a whole.
Nothing is written to a file: the next start reads its own settings again. Upstream's ``Configuration.update`` accepts
every change and rewrites the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gateway.errors import RequestRefused
from gateway.settings import Settings
from gateway.settings.declare import Declaration, Mark, declarations, text_of
from gateway.settings.files import together
from gateway.settings.files.apache_keys import apache_keys
from gateway.telemetry.logs import EventLog
from wire.codes import ResponseCode

NEVER = frozenset({"configBlackList", "brokerConfigPath"})
"""The keys that upstream's black list protects from changes."""

log = EventLog("settings")


class LiveSettings:
    """The settings in effect.

    :param changed: called after each change, for work that a changed setting needs besides being read.
    """

    def __init__(self, settings: Settings, changed: Callable[[], None]) -> None:
        self.current = settings
        self.changes = 0
        self._changed = changed

    def change(self, wanted: Mapping[str, str]) -> None:
        """Change settings by their keys: all of them or, if one is refused, none.

        :raises RequestRefused: NO_PERMISSION for a setting that is read only at the start or must not change;
            INVALID_PARAMETER for an unknown setting, an invalid value, or two settings that do not fit together.
        """
        values = {}
        for key, text in wanted.items():
            declaration, value = _read(key, text)
            is_secret = Mark.SECRET in declaration.marks  # nobody tries values until one is accepted
            if value == getattr(self.current, declaration.attribute) and not is_secret:
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
        _check(replace(self.current, **values), self.current)
        for attribute, value in values.items():
            before = text_of(getattr(self.current, attribute))
            log.warning("setting changed until the next start", setting=attribute, before=before, now=text_of(value))
            object.__setattr__(self.current, attribute, value)  # nobody else changes settings: the class is frozen
        self.changes += 1
        self._changed()


def declared(key: str) -> Declaration:
    """Return the declaration of a setting.

    :raises RequestRefused: INVALID_PARAMETER for an unknown setting; NO_PERMISSION for one that must not change.
    """
    if key in NEVER:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"{key} cannot be changed by a request")
    declaration = declarations(Settings).get(key)
    if declaration is None:
        what = "has no effect in this broker" if key in apache_keys() else "is no setting"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{key} {what}")
    return declaration


def _read(key: str, text: str) -> tuple[Declaration, Any]:
    """Return the declaration and the value of an entry."""
    declaration = declared(key)
    try:
        return declaration, declaration.read(text)
    except ValueError as error:
        shown = declaration.shown(text)
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{key}={shown}: expected {error}") from None


def _check(settings: Settings, before: Settings) -> None:
    """Refuse changeable settings that do not fit together, unless the same conflict was there before the change."""
    found = together.conflict_of_space(settings)
    if found is not None and found != together.conflict_of_space(before):
        both = " and ".join(together.assigned(settings, key) for key in found.keys)
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{both}: {found.reason}; change both at once")
