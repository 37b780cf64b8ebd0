"""Address patterns: every row of upstream's behaviour that is sound, and a reason for every pattern it throws at."""

from __future__ import annotations

import pytest

from gateway.access.plain.addresses import MAX_LISTED, address_of, parse_pattern

MATCHES = (
    ("", "10.1.2.3", False),
    ("  ", "10.1.2.3", False),
    ("*", "10.1.2.3", True),
    ("*", "::1", True),
    ("*.*.*.*", "10.1.2.3", True),
    ("*.*.*.*", "::1", True),
    ("*:*:*:*:*:*:*:*", "10.1.2.3", True),
    ("*", "unix", True),
    ("10.1.2.3", "10.1.2.3", True),
    ("10.1.2.3", "10.1.2.4", False),
    ("10.1.2.3", "::ffff:10.1.2.3", True),
    ("10.1.2.3", "unix", False),
    ("10.1.*.*", "10.1.255.0", True),
    ("10.1.*.*", "10.2.0.0", False),
    ("10.1.*.*", "10.10.0.0", False),
    ("10.1.*.*", "a01::1", False),
    ("10.*.*.*", "10.255.255.255", True),
    ("10.1.3-5.*", "10.1.4.200", True),
    ("10.1.3-5.*", "10.1.3.0", True),
    ("10.1.3-5.*", "10.1.6.0", False),
    ("10.1.3-5.7", "10.1.4.7", True),
    ("10.1.3-5.7", "10.1.4.200", False),
    ("10.1.2.0-9", "10.1.2.9", True),
    ("10.1.2.{1,2}", "10.1.2.2", True),
    ("10.1.2.{1,2}", "10.1.2.3", False),
    ("10.1.2.{7}", "10.1.2.7", True),
    ("10.1.2.3,10.9.9.9", "10.9.9.9", True),
    ("10.1.2.3,::1", "0:0:0:0:0:0:0:1", True),
    ("10.1.2.3,10.9.9.9", "10.9.9.8", False),
    ("10.1.2.3,,10.9.9.9,", "10.9.9.9", True),
    ("10.1.2.{1,,2,}", "10.1.2.2", True),
    ("1050::5:600:300c:326b", "1050:0:0:0:5:600:300C:326B", True),
    ("1050:0:0:0:5:600:300c:326b", "1050::5:600:300c:326b", True),
    ("1050::5:600:300c:{1,a}", "1050::5:600:300c:a", True),
    ("1050::5:600:300c:{1,a}", "1050::5:600:300c:b", False),
    ("1050::5:600:300c:*", "1050::5:600:300c:ffff", True),
    ("1050::5:600:300c:*", "1050::5:600:300d:1", False),
    ("1050::5:600:300c:1-ff", "1050::5:600:300c:ff", True),
    ("1050::5:600:300c:1-ff", "1050::5:600:300c:100", False),
    ("1050:0:0:0:5:6:7:*", "1050::5:6:7:9", True),
    ("fe80::*", "fe80::7%eth0", True),
    ("::1", "127.0.0.1", False),
)
REFUSED = (
    ("10.1.*", "four parts"),
    ("10.1.2.3.*", "four parts"),
    ("10.1.0.0/16", "no address"),
    ("broker.example.com", "no address"),
    ("my-host", "four parts"),
    ("10.1.2.0-0", "write 0"),
    ("*.1.2.3", "first part"),
    ("1-2.1.2.3", "first part"),
    ("*:0:0:0:0:0:0:1", "first part"),
    ("10.1.5-3.*", "must rise"),
    ("10.1.250-256.*", "must rise"),
    ("10.1.-5.*", "no part"),
    ("10.1.3-.*", "no part"),
    ("10.1.3-4-5.*", "no part"),
    ("10.1.x.*", "no part"),
    ("10.1.f.*", "no part"),
    ("10.1.03.*", "no part"),
    ("10.1..*", "no part"),
    ("010.1.2.3", "no address"),
    ("10.1.2.256", "no address"),
    ("10.1.2.3, 10.1.2.4", "space"),
    (" 10.1.2.3", "space"),
    (",", "no address"),
    ("10.1.2.3,10.1.*.*", "no address"),
    ("10.1.2.{1, 2}", "space|no address"),
    ("10.1.2.{}", "no address"),
    ("10.1.{1,2}.3", "no address"),
    ("10.1.{1,2}.{3}", "last part only"),
    ("10.1.2.1}", "last part only"),
    ("{1,2}", "last part only"),
    ("10.1.*.{1,2}", "no address"),
    ("1-1.2.3.*", "first part"),
    ("1050:0:0:0:5:*:*:*", "only the last part"),
    ("1050:*::5", "only the last part"),
    ("1050::5::*", "no part|eight parts"),
    ("1:2:3:4:5:6:7::*", "eight parts"),
    ("1:2:3:*", "eight parts"),
    ("1050::5:600:12345:*", "no part"),
    ("1050::5:600:300c:9-1", "must rise"),
    ("fe80::1%eth0", "no address"),
    ("1.2.3.4\n", "space"),
)


@pytest.mark.parametrize(("text", "host", "expected"), MATCHES)
def test_a_pattern_matches(text: str, host: str, expected: bool) -> None:
    assert parse_pattern(text).matches(address_of(host)) is expected


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_pattern_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_pattern(text)


def test_a_list_has_a_limit() -> None:
    numbers = ",".join(["1"] * (MAX_LISTED + 1))
    for text in (f"10.1.2.{{{numbers}}}", ",".join(["10.1.2.3"] * (MAX_LISTED + 1))):
        with pytest.raises(ValueError, match="at most 10000"):
            parse_pattern(text)


def test_only_the_three_stars_match_everything() -> None:
    assert parse_pattern("*").matches_everything
    assert not parse_pattern("10.*.*.*").matches_everything
