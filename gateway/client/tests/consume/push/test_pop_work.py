from gateway.client.consume.push.pop_work import POP_DELAYS, pop_delay


def test_a_message_rests_longer_with_each_time_up_to_two_hours() -> None:
    assert [pop_delay(0, times) for times in range(len(POP_DELAYS))] == list(POP_DELAYS)
    assert pop_delay(0, 1000) == 7200


def test_a_listener_may_choose() -> None:
    assert pop_delay(2, 7) == 60
    assert pop_delay(99, 0) == 7200
