"""messageDelayLevel is read as upstream reads it, and a mistake in it is named."""

import pytest

from gateway.errors import GatewayError
from gateway.schedule.redirect import DelayLevels


def test_the_default_levels_of_apache_rocketmq() -> None:
    levels = DelayLevels.parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    assert levels.last == 18
    assert levels.delay_ms(1) == 1_000
    assert levels.delay_ms(5) == 60_000
    assert levels.delay_ms(18) == 7_200_000


def test_levels_above_the_last_wait_as_long_as_the_last() -> None:
    levels = DelayLevels.parse("1s 2d")
    assert levels.delay_ms(40) == 2 * 86_400_000
    assert levels.clip(40) == 2
    assert levels.clip(-3) == 0


@pytest.mark.parametrize("text", ["", "   ", "1s 5", "s", "1x", "-1s", "1.5s", "1s,5s"])
def test_a_wrong_list_is_refused_and_named(text: str) -> None:
    with pytest.raises(GatewayError, match="messageDelayLevel"):
        DelayLevels.parse(text)
