"""The configuration keys of Apache RocketMQ 5.5.0, to judge keys that have no setting here.

A key is *without effect* when Apache knows it and we do not need it, *misspelt* when nobody knows it,
and *refused* when ignoring it would break a promise the operator relies on, such as access control.
The keys are data (``apache_keys.txt``), read when the first such key is met.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ApacheKey:
    """A key of Apache's; ``default`` is empty where Apache has none or computes it from the machine."""

    key: str
    java_type: str
    default: str
    owner: str


_NO_ACCESS_CONTROL = "this gateway does not check credentials, so it would be open to everyone"
_NO_REPLICAS = "this gateway has no replicas"
_OTHER_STORE = "this gateway has the file store only"

REFUSED: Mapping[tuple[str, str], str] = {
    ("aclEnable", "true"): _NO_ACCESS_CONTROL,
    ("authenticationEnabled", "true"): _NO_ACCESS_CONTROL,
    ("authorizationEnabled", "true"): _NO_ACCESS_CONTROL,
    ("brokerRole", "slave"): "this gateway can only be a master",
    ("enableDLegerCommitLog", "true"): _NO_REPLICAS,
    ("enableControllerMode", "true"): _NO_REPLICAS,
    ("duplicationEnable", "true"): _NO_REPLICAS,
    ("storeType", "defaultrocksdb"): _OTHER_STORE,
    ("transRocksDBEnable", "true"): _OTHER_STORE,
    ("timerRocksDBEnable", "true"): _OTHER_STORE,
}
"""Key and value in lower case, and why starting anyway would deceive."""


@cache
def apache_keys() -> Mapping[str, ApacheKey]:
    """All keys; one that two classes read (``listenPort``) is kept as the broker reads it."""
    found: dict[str, ApacheKey] = {}
    owner = ""
    for line in Path(__file__).with_name("apache_keys.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            owner = line.strip("[]")
        elif line and not line.startswith("#"):
            key, java_type, default = [*line.split(" ", 2), ""][:3]
            found.setdefault(key, ApacheKey(key, java_type, default, owner))
    return found


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that ``word`` is most likely a misspelling of, or None."""
    import difflib  # only to tell of a mistake

    by_lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None
