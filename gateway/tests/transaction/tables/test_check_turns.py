"""Turns are fair between groups and bounded."""

from __future__ import annotations

from gateway.transaction.tables.check_turns import ADMITTED_MS, FIRST_WINDOW, CheckTurns

HOST, OTHER = bytes([10, 0, 0, 1, 0, 0, 0, 9]), bytes([10, 0, 0, 2, 0, 0, 0, 9])


def turns_of(*groups: tuple[str, int], max_in_flight: int = 100) -> CheckTurns:
    """Groups with so many due half messages each; offsets count up through all of them."""
    turns = CheckTurns(max_in_flight=max_in_flight, answer_timeout_ms=1_000)
    offset = 0
    for name, count in groups:
        for _ in range(count):
            turns.push(turns.join(name), offset)
            offset += 1
    return turns


def send_all(turns: CheckTurns, now_ms: int = 0) -> list[tuple[str, int]]:
    sent = []
    while (turn := turns.next_turn()) is not None:
        group, offset = turn
        turns.sent(group, offset, now_ms)
        sent.append((group.name, offset))
    return sent


def test_groups_take_turns() -> None:
    assert send_all(turns_of(("a", 3), ("b", 2))) == [("a", 0), ("b", 3), ("a", 1), ("b", 4), ("a", 2)]


def test_all_groups_together_stay_within_the_limit() -> None:
    turns = turns_of(("a", 9), ("b", 9), max_in_flight=4)
    assert len(send_all(turns)) == 4
    assert not turns.is_waiting
    assert turns.answered(0)
    assert turns.is_waiting
    assert len(send_all(turns)) == 1


def test_a_group_stays_within_its_window_which_grows_with_answers() -> None:
    turns = turns_of(("a", 100))
    sent = send_all(turns)
    assert len(sent) == FIRST_WINDOW
    for _, offset in sent:
        turns.answered(offset)
    assert len(send_all(turns)) == 2 * FIRST_WINDOW


def test_silence_halves_the_window_down_to_one() -> None:
    turns = turns_of(("a", 200))
    send_all(turns)
    assert turns.expire(999) == 0
    assert turns.expire(1_000) == FIRST_WINDOW
    assert turns.in_flight == 0
    assert len(send_all(turns, 1_000)) == 1


def test_a_parked_group_waits_and_keeps_its_order() -> None:
    turns = turns_of(("a", 2), ("b", 1))
    turn = turns.next_turn()
    assert turn is not None
    turns.park(*turn)
    assert send_all(turns) == [("b", 2)]
    [group] = turns.parked(9)
    turns.push(group.number, 9)
    assert turns.next_turn() is None
    turns.unpark(group)
    assert turns.parked(9) == []
    assert not turns.is_any_parked
    assert send_all(turns) == [("a", 0), ("a", 1), ("a", 9)]


def test_parked_groups_are_looked_at_in_turn() -> None:
    turns = turns_of(("a", 1), ("b", 1), ("c", 1))
    while (turn := turns.next_turn()) is not None:
        turns.park(*turn)
    looks = [[group.name for group in turns.parked(2)] for _ in range(3)]
    assert looks == [["a", "b"], ["c", "a"], ["b", "c"]]


def test_groups_with_open_half_messages_have_a_limit_of_which_a_host_has_a_share() -> None:
    turns = CheckTurns(max_in_flight=9, answer_timeout_ms=1_000, max_groups=20)
    numbers = []
    for number in range(15):
        assert turns.admit(f"g{number}", HOST, ADMITTED_MS) is None
        numbers.append(turns.join(f"g{number}"))
    refusal = turns.admit("one more", HOST, ADMITTED_MS)
    assert refusal is not None
    assert "made by 10.0.0.1: 15, of all: 15, the limit is 20" in refusal
    assert turns.admit("g3", HOST, ADMITTED_MS) is None, "it has its place"
    assert turns.admit("honest", OTHER, ADMITTED_MS) is None
    turns.leave(numbers[0], 0)
    assert turns.admit("one more", HOST, ADMITTED_MS) is None
    assert turns.group_count == 14


def test_the_many_addresses_of_one_peer_have_one_share() -> None:
    turns = CheckTurns(max_in_flight=9, answer_timeout_ms=1_000, max_groups=20)
    hosts = [bytes([32, 1, *[0] * 6, *[number] * 8, 0, 0, 0, 9]) for number in range(16)]
    assert [turns.admit(f"g{number}", host, 0) is None for number, host in enumerate(hosts)] == [True] * 15 + [False]


def test_a_group_whose_half_message_never_came_gives_its_place_back() -> None:
    turns = CheckTurns(max_in_flight=9, answer_timeout_ms=1_000, max_groups=20)
    for number in range(15):
        assert turns.admit(f"g{number}", HOST, 0) is None
    turns.join("g0")
    assert turns.admit("late", HOST, ADMITTED_MS) is not None
    assert turns.admit("late", HOST, 2 * ADMITTED_MS) is None
    assert turns.group_count == 1


def test_groups_that_a_start_finds_come_beyond_the_limit_and_leave_no_room() -> None:
    turns = CheckTurns(max_in_flight=9, answer_timeout_ms=1_000, max_groups=3)
    numbers = [turns.join_many(f"g{number}", 1) for number in range(5)]
    assert turns.admit("new", HOST, 0) is not None
    assert turns.admit("g4", HOST, 0) is None
    for number in numbers[1:]:
        turns.leave(number, 0)
    assert turns.admit("new", HOST, 0) is None


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    assert not turns_of(("a", 1)).answered(0)


def test_a_check_sent_again_counts_once() -> None:
    turns = turns_of(("a", 1))
    turn = turns.next_turn()
    assert turn is not None
    turns.sent(*turn, 0)
    turns.sent(*turn, 1)
    assert turns.in_flight == 1


def test_a_group_goes_with_its_last_open_half_message() -> None:
    turns = CheckTurns(max_in_flight=9, answer_timeout_ms=1_000)
    number = turns.join("a")
    assert turns.join("a") == number
    turns.leave(number, 0)
    assert (turns.group_count, turns.name(number)) == (1, "a")
    turns.push(number, 1)
    turn = turns.next_turn()
    assert turn is not None
    turns.sent(*turn, 0)
    turns.leave(number, 1)
    assert (turns.group_count, turns.in_flight) == (0, 0)
    assert turns.join("a") != number


def test_a_group_that_keeps_answering_unknown_is_asked_less_often_until_it_knows_again() -> None:
    turns = turns_of(("a", 100))
    group = turns.groups()[0]
    patience = []
    for offset in range(100):
        turns.sent(group, offset, 0)
        turns.answered(offset, knows=False)
        patience.append(group.patience)
    assert [patience.index(value) + 1 for value in (1, 2, 4)] == [1, 16, 64]
    turns.sent(group, 5, 0)
    turns.answered(5, knows=True)
    assert group.patience == 1


def test_settling_by_others_is_no_answer_of_the_group() -> None:
    turns = turns_of(("a", 2))
    group = turns.groups()[0]
    turns.sent(group, 0, 0)
    turns.answered(0, knows=False)
    turns.sent(group, 1, 0)
    turns.leave(group.number, 1)
    assert group.unknowns == 1


def test_a_held_place_counts_as_in_flight_until_it_is_given_back() -> None:
    turns = turns_of(("a", FIRST_WINDOW + 2), ("b", 2), max_in_flight=FIRST_WINDOW + 1)
    held = []
    while (turn := turns.next_turn()) is not None:
        turns.hold(turn[0])
        held.append(turn)
    assert len(held) == FIRST_WINDOW + 1
    assert not turns.is_waiting
    for number, (group, offset) in enumerate(held):
        if number:  # the first one was settled meanwhile
            turns.sent(group, offset, 0)
        turns.release(group)
    assert turns.in_flight == FIRST_WINDOW
    assert turns.is_waiting
    assert [offset for _, offset in send_all(turns)] == [FIRST_WINDOW - 1]
