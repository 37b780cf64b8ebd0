from gateway.client.clock import wall_clock_ms


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    first = wall_clock_ms()
    assert 1_700_000_000_000 < first <= wall_clock_ms()
