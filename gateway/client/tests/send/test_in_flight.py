"""The limits of sends in flight, and the wait for them; simple objects stand in for sends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from gateway.client.send.in_flight import InFlight
from gateway.client.tests.jumping_time import run_jumping


@dataclass(eq=False)
class Counted:
    """A sending, as far as it is counted."""

    body: bytes


def sending(size: int = 1) -> Any:
    return Counted(b"x" * size)


def in_flight(messages: int = 10, size: int = 1000) -> InFlight:
    return InFlight(asyncio.get_running_loop(), messages, size)


def test_messages_and_their_bytes_are_limited() -> None:
    async def test() -> None:
        few, small = in_flight(messages=1), in_flight(size=5)
        for limited in (few, small):
            one = sending(5)
            limited.add(one)
            assert (len(limited), limited.bytes, limited.has_room) == (1, 5, False)
            limited.remove(one)
            limited.remove(one)
            assert (len(limited), limited.bytes, limited.has_room) == (0, 0, True)

    run_jumping(test())


def test_turns_for_room_go_to_who_waited_first() -> None:
    async def test() -> None:
        limited = in_flight(messages=1)
        order: list[int] = []

        async def one(number: int) -> None:
            await limited.room()
            order.append(number)
            mine = sending()
            limited.add(mine)
            await asyncio.sleep(1)
            limited.remove(mine)

        await asyncio.gather(*(one(number) for number in range(4)))
        assert order == [0, 1, 2, 3]

    run_jumping(test())


def test_a_turn_that_is_not_wanted_any_more_is_passed_on() -> None:
    async def test() -> None:
        limited = in_flight(messages=1)
        first = sending()
        limited.add(first)
        waiting = [asyncio.ensure_future(limited.room()) for _ in range(2)]
        await asyncio.sleep(0)
        limited.remove(first)
        waiting[0].cancel()
        await asyncio.wait(waiting)
        assert waiting[0].cancelled()
        assert waiting[1].exception() is None

    run_jumping(test())


def test_the_end_waits_for_what_is_under_way_but_not_for_ever() -> None:
    async def test() -> None:
        limited = in_flight(messages=1)
        one = sending()
        limited.add(one)
        waiting = asyncio.ensure_future(limited.room())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(2, limited.remove, one)
        await limited.drain(60)
        assert waiting.done(), "who waits for room is let go"
        assert asyncio.get_running_loop().time() == 2
        limited.add(one)
        await limited.drain(3)
        assert (len(limited), asyncio.get_running_loop().time()) == (1, 5)

    run_jumping(test())
