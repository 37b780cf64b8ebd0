"""Numbers written as digits."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from wire.message.digits import decimal_digits, write_decimal, write_hex

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-1_000, 1_000)


@given(NUMBERS)
@example(0)
@example(9)
@example(10)
@example(2**63 - 1)
@example(-(2**63))
def test_digits_are_those_that_formatting_writes(number: int) -> None:
    decimal, hexadecimal = BytesWriter(), BytesWriter()

    write_decimal(decimal, number)
    write_hex(hexadecimal, number)

    assert decimal.getvalue() == b"%d" % number
    assert len(decimal) == decimal_digits(number)
    assert hexadecimal.getvalue() == b"%016X" % number


def test_digits_follow_what_was_written_before() -> None:
    writer = BytesWriter()
    writer.write(b"at ")

    write_decimal(writer, 120)
    write_hex(writer, 255)

    assert writer.getvalue() == b"at 12000000000000000FF"
