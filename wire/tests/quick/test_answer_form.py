"""Answers written from a form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.errors import LocalError
from wire.frame import FRAME_HEAD, build_frame
from wire.message.digits import write_decimal, write_hex
from wire.quick.answer_form import MAX_HEADER_BYTES, AnswerForm

PLAIN = st.text("0123456789ABCDEFabcxyz,", min_size=1, max_size=200)
NAMES = ("msgId", "queueId", "transactionId")


def frame_of(form: AnswerForm, values: list[str], opaque: int) -> bytes:
    writer = form.begin()
    for number, value in enumerate(values):
        writer.write(value.encode())
        if number < len(form.gaps):
            writer.write(form.gaps[number])
    return form.end(writer, opaque)


@given(
    st.dictionaries(st.text(max_size=9).filter(lambda name: name not in NAMES), st.text(max_size=9), max_size=3),
    st.lists(PLAIN, max_size=3),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 999),
)
def test_a_filled_form_is_the_frame_that_is_built_from_the_fields(
    constant: dict[str, str], values: list[str], opaque: int, code: int
) -> None:
    names = NAMES[: len(values)]
    request = RemotingCommand(310, opaque=opaque)

    frame = frame_of(AnswerForm(code, constant, names), values, opaque)

    fields = {**constant, **dict(zip(names, values, strict=True))}
    assert frame == build_frame(request.response(code, None, fields))


@pytest.mark.parametrize("constant", ['"opaque":1234567890', '"msgId":"?', "1234567890 ?"])
def test_what_a_form_looks_for_stays_what_it_is_among_the_constants(constant: str) -> None:
    request = RemotingCommand(310, opaque=7)

    frame = frame_of(AnswerForm(ResponseCode.SUCCESS, {"region": constant}, ("msgId",)), ["A"], 7)

    assert frame == build_frame(request.response(ResponseCode.SUCCESS, None, {"region": constant, "msgId": "A"}))


def test_a_value_may_be_written_in_several_steps() -> None:
    request = RemotingCommand(310, opaque=7)
    form = AnswerForm(ResponseCode.SUCCESS, {}, ("msgId", "queueId"))

    writer = form.begin()
    writer.write(b"AB")
    write_hex(writer, 255)
    writer.write(form.gaps[0])
    write_decimal(writer, 3)
    frame = form.end(writer, request.opaque)

    fields = {"msgId": "AB00000000000000FF", "queueId": "3"}
    assert frame == build_frame(request.response(ResponseCode.SUCCESS, None, fields))


def test_the_longest_header_is_whole_and_a_longer_one_is_refused() -> None:
    form = AnswerForm(ResponseCode.SUCCESS, {}, ("msgId",))
    room = MAX_HEADER_BYTES - 4 - (len(frame_of(form, [""], 7)) - FRAME_HEAD.size)
    request = RemotingCommand(310, opaque=7)

    longest = frame_of(form, ["A" * room], 7)

    assert longest == build_frame(request.response(ResponseCode.SUCCESS, None, {"msgId": "A" * room}))
    with pytest.raises(LocalError, match="too long for a form"):
        frame_of(form, ["A" * (room + 1)], 7)
