"""Failed messages go to the retry topic with a growing delay, then to the dead letters."""

import pytest

from gateway.delivery.retry import (
    DeadLetter,
    Retry,
    after_client_retry,
    after_failed_consumption,
    dead_letter_topic,
    group_of_retry_topic,
    max_reconsume_times,
    retry_topic,
)


def test_names_are_those_of_every_client() -> None:
    assert retry_topic("g") == "%RETRY%g"
    assert dead_letter_topic("g") == "%DLQ%g"
    assert group_of_retry_topic("%RETRY%g") == "g"
    assert group_of_retry_topic("orders") is None


@pytest.mark.parametrize(
    ("times", "limit", "level", "way"),
    [
        (0, 16, 0, Retry(delay_level=3)),
        (5, 16, 0, Retry(delay_level=8)),
        (5, 16, 2, Retry(delay_level=2)),
        (15, 16, 0, Retry(delay_level=18)),
        (16, 16, 0, DeadLetter()),
        (16, 16, 4, DeadLetter()),
        (0, 16, -1, DeadLetter()),
        (0, 0, 0, DeadLetter()),
    ],
)
def test_the_way_of_a_message_sent_back(times: int, limit: int, level: int, way: Retry | DeadLetter) -> None:
    assert after_failed_consumption(reconsume_times=times, limit=limit, delay_level=level) == way


@pytest.mark.parametrize(
    ("times", "orderly", "way"),
    [(0, False, None), (16, False, None), (17, False, DeadLetter()), (0, True, DeadLetter())],
)
def test_a_client_that_resends_itself_ends_in_the_dead_letters_after_the_limit(
    times: int, orderly: bool, way: DeadLetter | None
) -> None:
    assert after_client_retry(reconsume_times=times, limit=16, group_is_orderly=orderly) == way


def test_the_clients_own_limit_counts_only_when_it_is_new_enough_to_send_one() -> None:
    assert max_reconsume_times(16, 3, 409) == 3
    assert max_reconsume_times(16, 3, 120) == 16
    assert max_reconsume_times(16, None, 409) == 16
    assert max_reconsume_times(16, -1, 409) == 16
