"""Address patterns of white lists, as Apache RocketMQ writes them.

    *    10.1.2.3    10.1.*.*    10.1.3-5.*    10.1.2.{1,2}    10.1.2.3,10.1.2.4    1050::5:600:300c:*

Every part of a pattern counts; upstream (``RemoteAddressStrategyFactory``) ignores the parts after the first range, so
that its ``10.1.3-5.7`` matches 10.1.4.200 as well. A pattern that makes upstream throw, at its start or at each
request, is refused here with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeAlias

EVERYTHING: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
"""The patterns that match every address, of both versions of IP."""
EXPECTED: Final = (
    "expected an address or a pattern such as 10.1.2.3, 10.1.*.*, 10.1.3-5.*, 10.1.2.{1,2}, 10.1.2.3,10.1.2.4 or "
    "1050::5:600:300c:*; host names and networks such as 10.1.0.0/16 are not known"
)
MAX_LISTED: Final = 10_000
"""The number of addresses in one pattern."""

MAX_SHOWN: Final = 100
"""The characters of a wrong text that an error repeats."""

Parts: TypeAlias = tuple[int, ...]
"""The 4 numbers of an IPv4 address, or the 8 of an IPv6 address."""
Spans: TypeAlias = tuple[tuple[int, int], ...]
"""For each part of an address the least and the greatest number that match."""

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,2}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,4}")


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """One pattern; ``text`` is as it was written, empty for a pattern that matches nothing."""

    text: str
    spans: tuple[Spans, ...] = ()
    addresses: frozenset[Parts] = frozenset()

    @property
    def matches_everything(self) -> bool:
        """True if the pattern matches every address."""
        return self.text in EVERYTHING

    def matches(self, address: Parts | None) -> bool:
        """Return whether an address matches; None, a peer without an IP address, matches ``*`` only."""
        if self.matches_everything:
            return True
        if address is None:
            return False
        return address in self.addresses or any(_within(address, spans) for spans in self.spans)


NOTHING: Final = AddressPattern("")
"""The pattern that matches no address."""


def address_of(host: str) -> Parts | None:
    """Return the numbers of an address text; None if it is none. An IPv4 address in an IPv6 one counts as IPv4."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if (inner := address.ipv4_mapped) is not None:
            return tuple(inner.packed)
        packed = address.packed
        return tuple(packed[at] << 8 | packed[at + 1] for at in range(0, 16, 2))
    return tuple(address.packed)


def listed_in(text: str) -> int:
    """Return how many addresses a pattern lists, or more; 0 for a pattern without a list."""
    commas = text.count(",")
    return commas + 1 if commas else 0


def parse_pattern(text: str) -> AddressPattern:
    """Return the pattern of a text.

    :raises ValueError: upstream would throw for the text; the error's text is the reason.
    """
    if not text.strip():
        return NOTHING
    if text in EVERYTHING:
        return AddressPattern(text)
    if text.endswith("}"):
        return AddressPattern(text, addresses=frozenset(map(_address, _in_braces(text))))
    if "," in text:
        return AddressPattern(text, addresses=frozenset(map(_address, _limited(text.split(",")))))
    if "*" in text or "-" in text:
        return AddressPattern(text, spans=(_spans_of_6(text) if ":" in text else _spans_of_4(text),))
    return AddressPattern(text, addresses=frozenset({_address(text)}))


def _within(address: Parts, spans: Spans) -> bool:
    return len(address) == len(spans) and all(
        low <= part <= high for part, (low, high) in zip(address, spans, strict=True)
    )


def _address(text: str) -> Parts:
    found = None if "%" in text else address_of(text)
    if found is None:
        if text != text.strip() and address_of(text.strip()) is not None:
            raise ValueError(f"{text[:MAX_SHOWN]!r} has a space; write addresses one after the other, without spaces")
        raise ValueError(f"{text[:MAX_SHOWN]!r} is no address; {EXPECTED}")
    return found


def _in_braces(text: str) -> list[str]:
    """Return the addresses of ``10.1.2.{1,2}``: only the last part may be in braces."""
    before, brace, listed = text[:-1].partition("{")
    if not brace or not before.endswith((".", ":")) or "{" in listed:
        raise ValueError(f"braces belong around the numbers of the last part only; {EXPECTED}")
    return [before + number for number in _limited(listed.split(","))]


def _limited(entries: list[str]) -> list[str]:
    """Return the entries that are not empty, as upstream reads a list."""
    entries = [entry for entry in entries if entry]
    if not entries:
        raise ValueError(f"the list has no address; {EXPECTED}")
    if len(entries) > MAX_LISTED:
        raise ValueError(f"{len(entries)} addresses in one pattern; at most {MAX_LISTED} are read")
    return entries


def _spans_of_4(text: str) -> Spans:
    parts = text.split(".")
    if len(parts) != 4:
        raise ValueError(f"an IPv4 pattern has four parts, such as 10.1.*.*, and this has {len(parts)}; {EXPECTED}")
    return _spans(parts, _DECIMAL, 10, 255)


def _spans_of_6(text: str) -> Spans:
    before, gap, after = text.partition("::")
    parts = before.split(":") if before else []
    if gap:
        last = after.split(":") if after else []
        zeros = 8 - len(parts) - len(last)
        parts = [*parts, *["0"] * zeros, *last] if zeros > 0 else []
    if len(parts) != 8:
        raise ValueError(f"an IPv6 pattern has eight parts, or :: once for those that are zero; {EXPECTED}")
    return _spans(parts, _HEXADECIMAL, 16, 0xFFFF)


def _spans(parts: list[str], number: re.Pattern[str], base: int, most: int) -> Spans:
    spans = []
    for part in parts:
        low, hyphen, high = part.partition("-")
        if part == "*":
            spans.append((0, most))
            continue
        if not number.fullmatch(low) or (hyphen and not number.fullmatch(high)):
            raise ValueError(f"{part[:MAX_SHOWN]!r} is no part of an address; {EXPECTED}")
        span = int(low, base), int(high or low, base)
        if hyphen and span[1] == 0:
            raise ValueError(f"the range {part} is the number 0: write 0")
        if span[0] > span[1] or span[1] > most:
            raise ValueError(f"{part!r} must rise and end at {most:{'x' if base == 16 else 'd'}} at most")
        spans.append(span)
    if not number.fullmatch(parts[0]):
        raise ValueError("the first part must be a number, unless the pattern is * alone")
    if base == 16 and not all(map(number.fullmatch, parts[:-1])):
        raise ValueError("only the last part of an IPv6 pattern may be a range or *")
    return tuple(spans)
