"""The conditions that ``consume`` and ``tail`` check themselves, after the messages have arrived."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import click

from gateway.cli.options import Command, gathered

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageConditions:
    """The conditions for a printed message, all of which must hold.

    :param tags: any of these tags; None for all messages.
    :param keys: any of these keys; empty for all messages.
    :param properties: all of these pairs of name and value.
    :param pattern: a pattern that must be found in the body.
    """

    tags: frozenset[str] | None = None
    keys: frozenset[str] = frozenset()
    properties: Sequence[tuple[str, str]] = ()
    pattern: re.Pattern[bytes] | None = None

    def takes(self, message: ReceivedMessage) -> bool:
        """Return whether a message fulfils the conditions."""
        if self.tags is not None and message.tags not in self.tags:
            return False
        if self.keys and self.keys.isdisjoint(message.keys):
            return False
        if any(message.properties.get(name) != value for name, value in self.properties):
            return False
        return self.pattern is None or self.pattern.search(message.body) is not None


class Conditions(NamedTuple):
    """The texts of the filter options, not yet parsed."""

    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Sequence[str] = ()
    pattern: str | None = None

    def filter(self, *, with_tags: bool = True) -> MessageConditions:
        """Make the filter.

        :param with_tags: False if the broker checks the tags already.
        :raises click.BadParameter: a condition cannot be read.
        """
        return MessageConditions(
            tags=_tags(self.tag) if with_tags else None,
            keys=frozenset(self.keys),
            properties=[property_pair(text) for text in self.properties],
            pattern=_pattern(self.pattern),
        )


def filter_options(command: Command) -> Command:
    """Add ``--tag``, ``--key``, ``--property`` and ``--grep``; the command's parameter is ``conditions``."""
    command = gathered("conditions", Conditions)(command)
    for option in (
        click.option("--grep", "pattern", metavar="REGEX", help="Only messages whose body contains this."),
        click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="Only with this property."),
        click.option("--key", "keys", metavar="KEY", multiple=True, help="Only with this key, or one of them."),
        click.option("--tag", metavar="EXPR", help="Only with this tag, or one of 'A || B'."),
    ):
        command = option(command)
    return command


def _tags(expression: str | None) -> frozenset[str] | None:
    from wire.errors import BodyError
    from wire.message.tags import parse_tag_expression

    try:
        parsed = parse_tag_expression(expression)
    except BodyError as error:
        raise click.BadParameter(str(error), param_hint="--tag") from error
    return None if parsed.match_all else parsed.tags


def property_pair(text: str) -> tuple[str, str]:
    """Return the name and the value of an option ``--property``.

    :raises click.BadParameter: the text is not NAME=VALUE.
    """
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    return name, value


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    if text is None:
        return None
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}", param_hint="--grep") from error
