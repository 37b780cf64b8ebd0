"""The servers of the matrix: open ones, and those that ask for TLS, for the keys of an account, or for both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compat_tests.access import stands
from compat_tests.access.stands import EVERYWHERE, Keys, Make

GATEWAY, CONTROL = "gateway-host", "rocketmq-5.5.0"
SECURED_FEATURES = ("send-sync", "push", "transactions", "pop", "simple", "request-reply", "query")
_NOT_OF_4 = frozenset({"pop", "simple", "timer", "recall"})
_KINDS = (
    ("", "", stands.gateway, stands.apache, "5.5.0"),
    ("keys-1.0", "keys of ACL 1.0", stands.gateway_of_4, stands.apache_of_4, "4.9.8"),
    ("keys-2.0", "keys of 5.3 and later", stands.gateway_of_5, stands.apache_of_5, "5.5.0"),
)


@dataclass(frozen=True, slots=True)
class Door:
    """A server and how it is entered; ``name`` is that of a peer in results."""

    name: str
    title: str
    make: Make
    is_encrypted: bool
    keys: Keys | None
    lacks: frozenset[str] = frozenset()
    """Features that came after this server."""
    control: str = ""
    """The same door of Apache RocketMQ; of a control nothing."""


def _doors() -> Iterator[Door]:
    for kind, title, ours, theirs, version in _KINDS:
        keys = EVERYWHERE if kind else None
        for is_encrypted in (False, True):
            way = "-".join(filter(None, (kind, "tls" if is_encrypted else "")))
            told = " over ".join(filter(None, (title, "TLS" if is_encrypted else "")))
            control = "-".join(filter(None, (f"rocketmq-{version}", way)))
            lacks = _NOT_OF_4 if version == "4.9.8" else frozenset()
            yield Door(f"gateway-{way or 'host'}", told, ours, is_encrypted, keys, control=control)
            yield Door(control, told, theirs, is_encrypted, keys, lacks)


DOORS = {door.name: door for door in _doors()}
SECURED = [door for door in DOORS.values() if door.control and door.title]
"""Those of this gateway that ask for something."""
