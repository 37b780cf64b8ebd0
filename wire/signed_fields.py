"""The fields that a signature covers, and their order; without the hashes, which few need."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field

UNSIGNED: Final = (
    ("_UNIQUE_KEY_QUERY",),
    ("__ZONE_NAME", "__ZONE_MODE"),
    (SECURITY_TOKEN,),
)
"""The fields that some client sends and does not sign.

Java clients up to 4.9.3 leave out the mark of a query by unique key. Java clients of 5.x add their zone after they
have signed. The Go client leaves out the token.
"""
MAX_ORDERS: Final = 1_000
"""The lists of names whose order is remembered; then all are forgotten."""

_orders: Final[dict[tuple[str, ...], list[str]]] = {}


def signed_names(fields: Iterable[str]) -> list[str]:
    """Return the names of fields in the order in which their values are signed, without ``Signature``."""
    given = tuple(fields)
    order = _orders.get(given)
    if order is None:
        order = sorted([name for name in given if name != SIGNATURE], key=_java_order)
        if sum(map(len, given)) < MAX_ORDERS:
            if len(_orders) >= MAX_ORDERS:
                _orders.clear()
            _orders[given] = order
    return order


def values_of(fields: Mapping[str, str], names: Iterable[str]) -> bytes:
    """Return the signed bytes of these fields."""
    return "".join([fields[name] for name in names]).encode("utf-8", "replace")


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
