"""Permission words of ACL 1.0: ``PUB``, ``SUB``, both with ``|`` between, or ``DENY``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.remoting.declared import Action
from gateway.spelling import nearest

MAX_SHOWN: Final = 100
"""The characters of a wrong text that an error repeats."""
DENY: Final = "DENY"
WORDS: Final[Mapping[str, Action]] = {
    DENY: Action(0),
    "PUB": Action.PUB,
    "SUB": Action.SUB,
    "PUB|SUB": Action.PUB | Action.SUB,
    "SUB|PUB": Action.PUB | Action.SUB,
}
"""The actions that each word permits. Upstream (``Permission``) takes every other word as DENY."""


def parse_word(text: str) -> str:
    """Return a permission word without the spaces around it.

    :raises ValueError: the word is unknown; the error's text is the reason.
    """
    word = text.strip()
    if word in WORDS:
        return word
    word = word[:MAX_SHOWN]
    meant = nearest("".join(word.split()), WORDS)
    advice = f", or is {meant} meant?" if meant else ""
    raise ValueError(f"{word!r} is no permission: expected {', '.join(WORDS)}{advice}")


def parse_entry(text: str) -> tuple[str, str]:
    """Return the name and the permission word of ``name=PERM``.

    :raises ValueError: the text has another form; the error's text is the reason.
    """
    name, separator, word = text.partition("=")
    name = name.strip()
    if not separator or not name or "=" in word:
        raise ValueError(
            f"Parse Resource format error for {text[:MAX_SHOWN]}. It has not the form name=PERM, such as orders=PUB|SUB"
        )
    return name, parse_word(word)
