"""The bytes of a group with a controller: captured ones of Apache RocketMQ 5.5.0, any pieces, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from construct import Int16sb, Int32sb, Int64sb, Struct
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.epoch_file import EpochEntry
from wire.errors import FrameError
from wire.replication.auto_switch import (
    ANSWER_HEAD,
    EPOCH,
    GREETING,
    MAX_ANSWER_EPOCHS,
    MAX_PART_BODY_BYTES,
    PART_HEAD,
    PROGRESS,
    Greeting,
    GroupReportReader,
    LogPart,
    MasterAnswer,
    PartReader,
    Phase,
    SlaveReport,
    build_answer,
    build_greeting,
    build_part_head,
    build_progress,
)
from wire.replication.classic import MAX_STRETCH_BYTES
from wire.tests.growth import MOST_PER_DOUBLING, growth_per_doubling

OFFSETS = st.integers(0, (1 << 63) - 1)
NUMBERS = st.integers(0, (1 << 31) - 1)
FIRST = EpochEntry(1, 0)
EPOCHS = st.lists(st.tuples(NUMBERS, OFFSETS), max_size=4, unique_by=(lambda e: e[0], lambda e: e[1])).map(
    lambda pairs: tuple(map(EpochEntry, sorted(one for one, _ in pairs), sorted(other for _, other in pairs)))
)
ANSWERS = st.builds(lambda end, epochs: MasterAnswer(end, epochs[-1].epoch if epochs else 0, epochs), OFFSETS, EPOCHS)
PARTS = st.lists(
    st.builds(
        lambda offsets, epoch, confirmed, body: LogPart(max(offsets), EpochEntry(epoch, min(offsets)), confirmed, body),
        st.tuples(OFFSETS, OFFSETS),
        NUMBERS,
        OFFSETS,
        st.binary(max_size=40),
    ),
    max_size=4,
)


def bytes_of(frame: Greeting | SlaveReport | MasterAnswer | LogPart) -> bytes:
    """The bytes that carry a frame."""
    if isinstance(frame, Greeting):
        return build_greeting(frame)
    if isinstance(frame, SlaveReport):
        return build_progress(frame.end)
    if isinstance(frame, MasterAnswer):
        return build_answer(frame.end, frame.epochs)
    return build_part_head(frame.offset, len(frame.body), frame.epoch, frame.confirmed) + frame.body


def pieces(stream: bytes, data: st.DataObject) -> list[bytes]:
    """A stream cut anywhere."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


RECORDED: list[tuple[Any, str]] = [
    (Greeting(2), "00000001 0000 0000 0000000000000002"),
    (SlaveReport(0), "00000002 0000000000000000"),
    (SlaveReport(0xF1), "00000002 00000000000000f1"),
    (MasterAnswer(0xF1, 1, (FIRST,)), "00000001 0000000c 00000000000000f1 00000001   00000001 0000000000000000"),
    (
        LogPart(0, FIRST, 0xF1, b""),
        "00000002 00000000 0000000000000000 00000001 0000000000000000 00000000000000f1",
    ),
    (
        LogPart(0, FIRST, 0xF1, bytes(range(241))),
        "00000002 000000f1 0000000000000000 00000001 0000000000000000 00000000000000f1" + bytes(range(241)).hex(),
    ),
    (Greeting(1), "00000001 0000 0000 0000000000000001"),
    (
        MasterAnswer(0x4B5, 2, (FIRST, EpochEntry(2, 0x2D3))),
        "00000001 00000018 00000000000004b5 00000002 00000001 0000000000000000 00000002 00000000000002d3",
    ),
    (
        LogPart(0x2D3, EpochEntry(2, 0x2D3), 0x4B5, b""),
        "00000002 00000000 00000000000002d3 00000002 00000000000002d3 00000000000004b5",
    ),
]


@pytest.mark.parametrize(("frame", "captured"), RECORDED)
def test_captured_frames_are_read_and_written(frame: Any, captured: str) -> None:
    raw = bytes.fromhex(captured)
    answer = build_answer(0, [])
    assert bytes_of(frame) == raw
    if isinstance(frame, Greeting | SlaveReport):
        assert GroupReportReader().receive_data(raw) == [frame]
    elif isinstance(frame, MasterAnswer):
        assert PartReader().receive_data(raw) == [frame]
    else:
        assert PartReader().receive_data(answer + raw) == [MasterAnswer(0, 0, ()), frame]


def test_a_captured_rejoin_is_read_on_both_sides() -> None:
    slave = bytes_of(Greeting(1)) + bytes_of(SlaveReport(0x2D3))
    parts = LogPart(0x2D3, EpochEntry(2, 0x2D3), 0x4B5, b""), LogPart(0x2D3, EpochEntry(2, 0x2D3), 0x4B5, bytes(482))
    answer = MasterAnswer(0x4B5, 2, (FIRST, EpochEntry(2, 0x2D3)))
    assert GroupReportReader().receive_data(slave) == [Greeting(1), SlaveReport(723)]
    assert PartReader().receive_data(bytes_of(answer) + b"".join(map(bytes_of, parts))) == [answer, *parts]


@given(OFFSETS, NUMBERS, OFFSETS, OFFSETS, st.integers(0, MAX_PART_BODY_BYTES), st.booleans(), st.booleans())
def test_the_layouts_are_those_that_construct_builds(
    offset: int, epoch: int, start: int, confirmed: int, size: int, last_file: bool, learner: bool
) -> None:
    part = Struct(
        "phase" / Int32sb, "size" / Int32sb, "offset" / Int64sb, "epoch" / Int32sb, "start" / Int64sb, "end" / Int64sb
    )
    greeting = Struct("phase" / Int32sb, "last" / Int16sb, "learner" / Int16sb, "id" / Int64sb)
    answer = Struct("phase" / Int32sb, "size" / Int32sb, "end" / Int64sb, "epoch" / Int32sb)
    entry = Struct("epoch" / Int32sb, "start" / Int64sb)
    made = {"phase": 2, "size": size, "offset": offset, "epoch": epoch, "start": start, "end": confirmed}

    assert part.build(made) == build_part_head(offset, size, EpochEntry(epoch, start), confirmed)
    assert greeting.build({"phase": 1, "last": last_file, "learner": learner, "id": offset}) == build_greeting(
        Greeting(offset, last_file, learner)
    )
    assert answer.build({"phase": 1, "size": 12, "end": offset, "epoch": epoch}) + entry.build(
        {"epoch": epoch, "start": start}
    ) == build_answer(offset, [EpochEntry(epoch, start)])
    assert [layout.size for layout in (GREETING, ANSWER_HEAD, EPOCH, PROGRESS, PART_HEAD)] == [16, 20, 12, 12, 36]


@given(st.lists(st.builds(Greeting, OFFSETS, st.booleans(), st.booleans()), max_size=3), st.lists(OFFSETS), st.data())
def test_greetings_and_reports_come_out_of_any_pieces(
    greetings: list[Greeting], ends: list[int], data: st.DataObject
) -> None:
    reader = GroupReportReader()
    frames: list[Greeting | SlaveReport] = [*greetings, *map(SlaveReport, ends)]

    stream = b"".join(map(bytes_of, frames))

    assert [found for piece in pieces(stream, data) for found in reader.receive_data(piece)] == frames


@given(ANSWERS, PARTS, st.data())
def test_an_answer_and_parts_come_out_of_any_pieces(
    answer: MasterAnswer, parts: list[LogPart], data: st.DataObject
) -> None:
    reader = PartReader()
    frames: list[MasterAnswer | LogPart] = [answer, *parts]

    stream = b"".join(map(bytes_of, frames))

    assert [found for piece in pieces(stream, data) for found in reader.receive_data(piece)] == frames
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("phase", [Phase.READY, Phase.SUSPEND, Phase.SHUTDOWN, 5, -1])
def test_a_frame_of_another_phase_is_refused(phase: int) -> None:
    number = phase.to_bytes(4, "big", signed=True)
    with pytest.raises(FrameError, match=f"of phase {phase} in phase 1"):
        GroupReportReader().receive_data(number)
    with pytest.raises(FrameError, match=f"of phase {phase} in phase 1"):
        PartReader().receive_data(number + bytes(16))


def test_no_greeting_follows_a_report_and_no_answer_follows_an_answer() -> None:
    with pytest.raises(FrameError, match="of phase 1 in phase 2"):
        GroupReportReader().receive_data(bytes_of(SlaveReport(1)) + bytes_of(Greeting(1)))
    with pytest.raises(FrameError, match="of phase 1 in phase 2"):
        PartReader().receive_data(build_answer(1, []) + build_answer(1, []) + bytes(16))
    with pytest.raises(FrameError, match="of phase 2 in phase 1"):
        PartReader().receive_data(bytes_of(LogPart(0, FIRST, 0, b"")))


@pytest.mark.parametrize("size", [MAX_PART_BODY_BYTES + 1, -1, 1 << 30])
def test_a_size_that_no_slave_can_take_is_refused_at_its_head(size: int) -> None:
    reader = PartReader()
    reader.receive_data(build_answer(1, []))
    with pytest.raises(FrameError, match="the limit is 4194268"):
        reader.receive_data(build_part_head(7, size, FIRST, 0))


@pytest.mark.parametrize("size", [MAX_ANSWER_EPOCHS * 12 + 12, 11, -12])
def test_an_answer_of_a_wrong_size_is_refused_at_its_head(size: int) -> None:
    with pytest.raises(FrameError, match=f"announces {size} bytes"):
        PartReader().receive_data(ANSWER_HEAD.pack(1, size, 0, 0))


@pytest.mark.parametrize(
    "frame",
    [
        ANSWER_HEAD.pack(1, 0, -1, 0),
        ANSWER_HEAD.pack(1, 24, 0, 0) + EPOCH.pack(2, 0) + EPOCH.pack(1, 5),
        ANSWER_HEAD.pack(1, 24, 0, 0) + EPOCH.pack(1, 5) + EPOCH.pack(2, 5),
        ANSWER_HEAD.pack(1, 12, 0, 0) + EPOCH.pack(1, -5),
        build_answer(0, []) + PART_HEAD.pack(2, 0, -1, 1, 0, 0),
        build_answer(0, []) + PART_HEAD.pack(2, 0, 5, 1, 6, 0),
        build_answer(0, []) + PART_HEAD.pack(2, 0, 5, 1, -1, 0),
        build_answer(0, []) + PART_HEAD.pack(2, 0, 5, -1, 0, 0),
    ],
)
def test_numbers_that_no_master_has_are_refused(frame: bytes) -> None:
    with pytest.raises(FrameError):
        PartReader().receive_data(frame)


@pytest.mark.parametrize(
    "frame", [PROGRESS.pack(2, -1), GREETING.pack(1, 0, 0, -1), GREETING.pack(1, 2, 0, 1), GREETING.pack(1, 0, -1, 1)]
)
def test_numbers_that_no_slave_has_are_refused(frame: bytes) -> None:
    with pytest.raises(FrameError):
        GroupReportReader().receive_data(frame)


def test_an_answer_names_the_newest_epochs() -> None:
    epochs = [EpochEntry(number, number * 7) for number in range(MAX_ANSWER_EPOCHS + 3)]
    (answer,) = PartReader().receive_data(build_answer(99_999, epochs))
    assert answer == MasterAnswer(99_999, MAX_ANSWER_EPOCHS + 2, tuple(epochs[3:]))


def test_the_largest_part_is_taken() -> None:
    part = LogPart(7, FIRST, 7, bytes(MAX_PART_BODY_BYTES))
    reader = PartReader()
    reader.receive_data(build_answer(0, []))
    assert len(bytes_of(part)) == MAX_STRETCH_BYTES
    assert reader.receive_data(bytes_of(part)) == [part]


def test_an_incomplete_part_is_held_until_its_last_byte() -> None:
    reader = PartReader()
    stream = build_answer(0, []) + bytes_of(LogPart(5, FIRST, 5, b"body"))
    assert reader.receive_data(stream[:-1]) == [MasterAnswer(0, 0, ())]
    assert reader.buffered_bytes == 39
    assert reader.receive_data(stream[-1:]) == [LogPart(5, FIRST, 5, b"body")]


def test_many_small_pieces_cost_no_more_than_their_number() -> None:
    def feed(stream: bytes) -> None:
        reader = PartReader()
        for position in range(0, len(stream), 64):
            reader.receive_data(stream[position : position + 64])

    def made(size: int) -> bytes:
        return build_answer(0, []) + bytes_of(LogPart(0, FIRST, 0, bytes(size)))

    assert growth_per_doubling(feed, made) < MOST_PER_DOUBLING
