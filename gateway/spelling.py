"""Suggestions for a misspelt word: the known word that its writer probably meant.

People follow a suggestion without much thought. So a word with the opposite meaning is never suggested, however alike
the words look: ``autoDeleteTopicEnable`` is a few letters away from ``autoCreateTopicEnable``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

LEAST_ALIKE = 0.75
"""The least likeness of a word and its suggestion: twice the shared letters, divided by the letters of both words."""
SAME_WORD = 0.85
"""The likeness above which a part of a name counts as a misspelt word (``dissable``); short words have to be equal."""
SHORT_WORD = 4
SHORTEST_PART = 3
"""The least length of a word that is searched anywhere in a name without capitals; shorter words occur by chance."""
OPPOSITES = (
    *(("create", "delete"), ("create", "remove"), ("add", "delete"), ("add", "remove"), ("keep", "delete")),
    *(("max", "min"), ("most", "least"), ("more", "less"), ("high", "low"), ("large", "small"), ("long", "short")),
    *(("read", "write"), ("get", "put"), ("get", "set"), ("get", "send"), ("pull", "push"), ("send", "receive")),
    *(("memory", "disk"), ("hot", "cold"), ("fast", "slow"), ("new", "old"), ("master", "slave")),
    *(("sync", "async"), ("before", "after"), ("first", "last"), ("earliest", "latest"), ("start", "stop")),
    *(("start", "end"), ("starting", "ending"), ("begin", "end"), ("open", "close"), ("on", "off"), ("in", "out")),
    *(("up", "down"), ("asc", "desc"), ("white", "black"), ("include", "exclude"), ("allow", "reject")),
    *(("enqueue", "dequeue"), ("commit", "rollback"), ("compress", "decompress"), ("encrypt", "decrypt")),
    *(("lock", "unlock"), ("register", "unregister"), ("load", "unload"), ("producer", "consumer")),
    *(("buy", "sell"), ("success", "failure"), ("input", "output"), ("inbound", "outbound"), ("hard", "soft")),
)
"""Pairs of opposite words: a name with one word of a pair is never suggested for a name with the other."""
NEGATIONS = (
    *("no", "not", "non", "un", "dis", "without", "never", "ignore", "skip", "omit", "exclude"),
    *("disable", "disabled", "reject", "refuse", "forbid", "deny", "prevent", "block", "stop"),
)
"""Words that reverse the meaning of a name."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def nearest(word: str, known: Iterable[str], least_alike: float = LEAST_ALIKE) -> str | None:
    """Return the known word of which ``word`` is most likely a misspelling.

    Return None if no known word is alike enough, or if the nearest known word means the opposite.

    :param least_alike: the least likeness of a suggestion.
    """
    import difflib  # only to tell of a mistake

    by_lower = {entry.lower(): entry for entry in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=least_alike)
    return by_lower[found[0]] if found and not are_opposed(word, by_lower[found[0]]) else None


def are_opposed(word: str, other: str) -> bool:
    """Return whether two names that look alike have opposite meanings."""
    left, right = _words(word), _words(other)
    if _negations(left - right, right) % 2 != _negations(right - left, left) % 2:
        return True
    only_left, only_right = list(left - right), list(right - left)
    for one, two in OPPOSITES:
        in_left = _has(only_left, one, two), _has(only_left, two, one)
        in_right = _has(only_right, one, two), _has(only_right, two, one)
        if in_left != in_right and in_left == in_right[::-1]:
            return True
    return False


def _words(name: str) -> Counter[str]:
    """Return the words of a name, in lower case, with their counts.

    ``maxMessageSize`` and ``MAX_MESSAGE_SIZE`` have three words, ``maxmessagesize`` is a single word.
    """
    return Counter(word.lower() for word in _WORD.findall(name))


def _has(words: list[str], word: str, opposite: str) -> bool:
    """Return whether a name has a word, or a misspelling of the word that is not nearer to its opposite."""
    return any(
        _is_part(word, own.replace(opposite, "") if word in opposite else own)
        or _alike(own, word) > max(_alike(own, opposite), SAME_WORD)
        for own in words
    )


def _is_part(word: str, own: str) -> bool:
    """Return whether ``own``, which may be several words written as one, contains ``word``."""
    return SHORTEST_PART <= len(word) <= len(own) // 2 and word in own


def _negations(words: Counter[str], others: Counter[str]) -> int:
    """Return how many words reverse the meaning of a name, alone or in front of a word of the other name."""
    whole = "".join(others)
    return sum(
        any(_alike(own, word) > SAME_WORD or _is_prefix(word, own, whole) for word in NEGATIONS)
        for own in words.elements()
    )


def _is_prefix(word: str, own: str, whole: str) -> bool:
    rest = own.removeprefix(word)
    return rest != own and len(rest) >= SHORTEST_PART and rest in whole and own not in whole


def _alike(own: str, word: str) -> float:
    """Return the likeness of two words, 0 to 1. Words that could be alike by chance are equal (1) or not alike (0)."""
    import difflib

    if own == word:
        return 1.0
    if min(len(own), len(word)) <= SHORT_WORD:
        return 0.0
    return difflib.SequenceMatcher(None, own, word).ratio()
