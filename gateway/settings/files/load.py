"""Settings from all the places where people write them, with the source of each value.

Later sources take precedence: defaults, ``-c`` file, ``tls.properties``, environment, ``--set``, dedicated options. A
value of the wrong type or out of range is a SettingsError that names key, value, source and what was expected.

Keys without a setting are kept in ``Loaded.kept`` and judged once each: known to Apache RocketMQ and without effect
here, misspelt, or refused. In a name server's own file ``listenPort`` is the name server's port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gateway.errors import SettingsError
from gateway.settings.access import AccessSettings
from gateway.settings.declare import (
    ENVIRONMENT_PREFIX,
    MASK,
    OWN_PREFIX,
    Declaration,
    Mark,
    declarations,
    environment_name,
)
from gateway.settings.files import access_keys, tls_keys, together
from gateway.settings.files.apache_keys import REFUSED, apache_keys, is_honoured, without_effect
from gateway.settings.files.properties import parse_properties_file
from gateway.settings.files.written import WrittenSetting
from gateway.settings.tree import SECTIONS, Settings
from gateway.spelling import nearest

_PASSWORD = re.compile(r"(//[^/@:]*+:)[^/]*+")
_PARAMETER = re.compile(r"([?&][^=&]*+=)[^&]*+")
"""A value that may be a password in a DSN: such a DSN is refused, and the password must not reach a log."""
DEFAULT = "default"
"""The source of a value that nobody set."""


class Role(StrEnum):
    """The servers that the process runs."""

    SERVE = "serve"
    BROKER = "broker"
    NAMESERVER = "nameserver"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The effective settings.

    ``sources`` has the source of each set key, and ``kept`` the entries without a setting. ``notices`` are sentences
    that warn the operator once, at start; ``remarks`` are sentences that are no warnings.
    """

    settings: Settings
    sources: Mapping[str, str]
    kept: tuple[WrittenSetting, ...]
    notices: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    def rows(self) -> list[tuple[Declaration, object, str]]:
        """Return every setting with its value and source, in the order of declaration."""
        return [
            (declaration, getattr(self.settings, declaration.attribute), self.sources.get(key, DEFAULT))
            for key, declaration in declarations(Settings).items()
        ]

    def sections(self) -> list[tuple[str, list[tuple[Declaration, object, str]]]]:
        """Return the rows below the title of their section."""
        found: list[tuple[str, list[tuple[Declaration, object, str]]]] = []
        for row in self.rows():
            title = SECTIONS.get(row[0].key)
            if title is not None:
                found.append((title, []))
            found[-1][1].append(row)
        return found


def load_settings(
    role: Role,
    *,
    config_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    options: Iterable[WrittenSetting] = (),
) -> Loaded:
    """Read all sources in order.

    :param assignments: the ``key=value`` texts of ``--set``.
    :raises SettingsError: a value is wrong or refused, or two values do not go together.
    """
    first = read_file(config_file) if config_file is not None else []
    later = [*read_environment(environment or {}, role), *read_assignments(assignments), *options]
    tls_file = tls_keys.tls_file([*first, *later])
    entries = [*first, *(read_file(tls_file) if tls_file is not None else ()), *later]
    tls_keys.check_names(entries, tls_file)
    access_keys.check_classes(entries)
    known = declarations(Settings)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    kept: dict[str, WrittenSetting] = {}
    for entry in entries:
        _refuse(entry)
        declaration = known.get(_key_in_role(entry.key, role))
        if declaration is None:
            _refuse_misspelt_access(entry)
            kept[entry.key] = entry
            continue
        values[declaration.attribute] = _read(declaration, entry)
        sources[declaration.key] = entry.source
    wanted = Settings(**values)
    beside = access_keys.beside_configuration(wanted, config_file)
    if beside is not None:
        wanted = replace(wanted, acl_file=str(beside))
        sources[access_keys.ACL_FILE] = f"beside {config_file}"
    settings, changes = (wanted, []) if role is Role.NAMESERVER else together.in_order(wanted, sources)
    _check_together(settings, sources, role)
    notices = [
        *(_both(wanted, sources, change) for change in changes),
        *(_both(settings, sources, limits) for limits in _told_of(settings, role)),
        *tls_keys.notices(settings),
        *access_keys.notices(settings, sources),
        *_without_effect(kept.values()),
    ]
    sources |= {change.keys[1]: f"follows {change.keys[0]}" for change in changes}
    return Loaded(settings, sources, tuple(kept.values()), tuple(notices))


def read_file(path: Path) -> list[WrittenSetting]:
    """Return the entries of a properties file, with the source ``FILE:LINE``.

    :raises SettingsError: the file cannot be read, or sets a key twice.
    """
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise SettingsError(f"cannot read {path}: {problem.strerror}") from problem
    properties = parse_properties_file(content, str(path))
    first: dict[str, int] = {}
    for key, _, line in properties:
        if first.setdefault(key, line) != line:
            raise SettingsError(f"{path}:{line}: {key} is set in line {first[key]} already; remove one of the two")
    return [WrittenSetting(key, value, f"{path}:{line}") for key, value, line in properties]


def read_environment(environment: Mapping[str, str], role: Role) -> list[WrittenSetting]:
    """Return ``ROCKETMQ_GATEWAY_…`` variables, and two of Apache's.

    ``ROCKETMQ_HOME`` is for every role, ``NAMESRV_ADDR`` for a broker without our name server.

    ``serve`` brings its own name server. A developer's shell may name a shared name server for clients, and then a
    broker on a laptop must not join that cluster.
    """
    entries: list[WrittenSetting] = []
    if role is Role.BROKER and environment.get("NAMESRV_ADDR"):
        entries.append(WrittenSetting("namesrvAddr", environment["NAMESRV_ADDR"], "environment NAMESRV_ADDR"))
    if environment.get("ROCKETMQ_HOME"):
        entries.append(WrittenSetting("rocketmqHome", environment["ROCKETMQ_HOME"], "environment ROCKETMQ_HOME"))
    ours = {name: text for name, text in environment.items() if name.startswith(ENVIRONMENT_PREFIX)}
    if ours:
        keys = {environment_name(key): key for key in (*apache_keys(), *declarations(Settings))}
        entries += [WrittenSetting(keys.get(name, name), text, f"environment {name}") for name, text in ours.items()]
    return entries


def read_assignments(assignments: Sequence[str]) -> list[WrittenSetting]:
    """Return the ``key=value`` texts of ``--set``.

    :raises SettingsError: a text is not KEY=VALUE, or the key is unknown: a key that was just typed must be known.
    """
    entries: list[WrittenSetting] = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SettingsError(f"--set {assignment!r}: expected KEY=VALUE")
        if key not in declarations(Settings) and key not in apache_keys():
            raise SettingsError(f"--set {key}: no such setting{_did_you_mean(key)}")
        entries.append(WrittenSetting(key, text, "--set"))
    return entries


def _key_in_role(key: str, role: Role) -> str:
    if role is Role.NAMESERVER and key == "listenPort":
        return f"{OWN_PREFIX}nameserverPort"
    return key


def _read(declaration: Declaration, entry: WrittenSetting) -> object:
    try:
        return declaration.read(entry.text)
    except ValueError as expected:
        raise _wrong(entry, str(expected), MASK if Mark.SECRET in declaration.marks else entry.text) from None


def _wrong(entry: WrittenSetting, expected: str, text: str) -> SettingsError:
    if "://" in text:
        text = _PASSWORD.sub(r"\1***", _PARAMETER.sub(r"\1***", text))
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return SettingsError(f"{entry.key}={shown!r} ({entry.source}): expected {expected}")


def _refuse(entry: WrittenSetting) -> None:
    text = entry.text.strip().lower()
    reason = REFUSED.get((entry.key, text))
    if reason is not None:
        raise SettingsError(f"{entry.key}={entry.text.strip()} ({entry.source}): {reason}")
    if (entry.key, "true") in REFUSED and text != "false":
        raise _wrong(entry, "false", entry.text)


def _refuse_misspelt_access(entry: WrittenSetting) -> None:
    """Refuse an unknown key that is probably one of access control, because the ports would be open without it."""
    if entry.key in apache_keys():
        return
    guess = _nearest_key(entry.key)
    keys = declarations(AccessSettings)
    if guess in (*keys, *map(environment_name, keys)):
        raise SettingsError(f"{entry.key} ({entry.source}): no such setting of access control; did you mean {guess}?")


def _without_effect(entries: Iterable[WrittenSetting]) -> Iterator[str]:
    """Yield warnings about entries without a setting; entries with Apache's defaults share one sentence."""
    repeated: list[str] = []
    for entry in entries:
        apache = apache_keys().get(entry.key)
        place = f"{entry.key} ({entry.source})"
        if apache is None:
            yield f"{place}: unknown setting, kept without effect{_did_you_mean(entry.key)}"
        elif is_honoured(apache, entry.text) or entry.key in access_keys.STOCK_CLASSES:
            continue
        elif entry.text.strip() == apache.default:
            repeated.append(place)
        else:
            yield f"{place}: {without_effect(entry.key)}"
    if repeated:
        yield f"{', '.join(repeated)}: known to Apache RocketMQ, without effect here (each has Apache's default)"


def _did_you_mean(word: str) -> str:
    guess = _nearest_key(word)
    return f"; did you mean {guess}?" if guess else ""


def _nearest_key(word: str) -> str | None:
    keys: Iterable[str] = [*declarations(Settings), *apache_keys()]
    if word.startswith(ENVIRONMENT_PREFIX):
        keys = map(environment_name, keys)
    return nearest(word, keys)


def _told_of(settings: Settings, role: Role) -> Iterator[together.Conflict]:
    """Yield pairs of values that do not have the expected effect, although a server starts with them."""
    if role is not Role.NAMESERVER:
        found = together.conflict_of_space(settings)
        if found is not None:
            yield found
        yield from together.of_copies(settings)
        yield from together.of_members(settings)
    yield from together.never_reached(settings)


def _check_together(settings: Settings, sources: Mapping[str, str], role: Role) -> None:
    """Refuse values that are fine alone and do not go together."""
    found = together.conflict(settings)
    name_server, broker = settings.nameserver_port, settings.listen_port
    vip = broker - 2 if settings.vip_channel_enable and broker > 2 else 0
    if found is None and role is Role.SERVE and name_server and name_server in (broker, vip):
        reason = "both need the same port (listenPort-2 is open too)"
        found = together.Conflict(("listenPort", "gateway.nameserverPort"), reason)
    if found is not None:
        raise SettingsError(_both(settings, sources, found))
    tls_keys.check_together(settings, sources)
    access_keys.check_together(settings, sources)


def _both(settings: Settings, sources: Mapping[str, str], conflict: together.Conflict) -> str:
    """Return what is wrong between two settings, with the value and the source of each."""
    said = (f"{together.assigned(settings, key)} ({sources.get(key, DEFAULT)})" for key in conflict.keys)
    return f"{' and '.join(said)}: {conflict.reason}"
