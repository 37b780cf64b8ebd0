"""Failed attempts are counted by address, and nobody with the right key is locked out."""

from __future__ import annotations

from gateway.access.failures import MAX_ADDRESSES, WINDOW_MS, Failures


class Time:
    now_ms = 0

    def __call__(self) -> int:
        """Return the time that the test has set."""
        return self.now_ms


def test_each_failure_over_the_limit_closes_its_connection_until_the_minute_is_over() -> None:
    time = Time()
    failures = Failures(3, time)
    assert [failures.failed("10.0.0.1") for _ in range(5)] == [False, False, False, True, True]
    assert not failures.failed("10.0.0.2")
    time.now_ms = WINDOW_MS - 1
    assert failures.failed("10.0.0.1")
    time.now_ms = WINDOW_MS
    assert [failures.failed("10.0.0.1") for _ in range(4)] == [False, False, False, True]


def test_a_clock_that_goes_back_begins_anew() -> None:
    time = Time()
    time.now_ms = 10 * WINDOW_MS
    failures = Failures(1, time)
    assert [failures.failed("::1"), failures.failed("::1")] == [False, True]
    time.now_ms = 0
    assert not failures.failed("::1")


def test_addresses_of_one_ipv6_network_share_a_count() -> None:
    failures = Failures(1, Time())
    assert not failures.failed("2001:db8::1")
    assert failures.failed("2001:db8::ffff")
    assert not failures.failed("2001:db8:0:1::1")
    assert not failures.failed("fe80::1%eth0")
    assert not failures.failed("not:an:address")


def test_the_table_does_not_grow_beyond_its_limit() -> None:
    failures = Failures(1, Time())
    for number in range(MAX_ADDRESSES + 10):
        failures.failed(f"host-{number}")
    assert len(failures._counts) == MAX_ADDRESSES
