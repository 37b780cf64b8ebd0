"""Answers made by filling in a form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.answer_form import AnswerForm
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.frame import build_frame

PLAIN = st.text("0123456789ABCDEFabcxyz", min_size=1)


@given(
    st.dictionaries(st.text(max_size=9).filter(lambda name: "%" not in name), st.text(max_size=9), max_size=3),
    st.lists(PLAIN | st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 999),
)
def test_a_filled_form_is_the_frame_that_is_built_from_the_fields(
    constant: dict[str, str], values: list[str | int], opaque: int, code: int
) -> None:
    blanks = ("msgId", "queueId", "transactionId")
    request = RemotingCommand(310, opaque=opaque)
    fields = {**constant, **dict(zip(blanks, map(str, values), strict=True))}

    frame = AnswerForm(code, constant, dict.fromkeys(blanks, "%s")).build(request, tuple(values))

    assert frame == build_frame(request.response(code, None, fields))


def test_the_sample_number_among_the_constants_stays_what_it_is() -> None:
    constant = {"region": '"opaque":1234567890 %s %d'}
    request = RemotingCommand(310, opaque=7)

    frame = AnswerForm(ResponseCode.SUCCESS, constant, {"msgId": "%s"}).build(request, ("A",))

    assert frame == build_frame(request.response(ResponseCode.SUCCESS, None, {**constant, "msgId": "A"}))


def test_a_blank_may_be_put_together_of_several_values() -> None:
    request = RemotingCommand(310, opaque=7)

    frame = AnswerForm(ResponseCode.SUCCESS, {}, {"msgId": "%s%016X", "queueId": "%d"}).build(request, ("AB", 255, 3))

    fields = {"msgId": "AB00000000000000FF", "queueId": "3"}
    assert frame == build_frame(request.response(ResponseCode.SUCCESS, None, fields))
