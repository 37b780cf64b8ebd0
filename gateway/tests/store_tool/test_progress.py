"""The line that tells how far a walk is."""

from __future__ import annotations

import io

from gateway.store_tool.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_is_drawn_again() -> None:
    out, now = Terminal(), [0.0]
    progress = Progress(out, lambda: now[0])
    progress.begin("verifying", 400 << 20)
    now[0] = 0.1
    progress.at(1 << 20)
    assert out.getvalue() == ""
    now[0] = 1.0
    progress.at(100 << 20)
    assert out.getvalue() == "\r\x1b[Kverifying [######..................]  25%  100 of 400 MiB  105 MB/s  3 s left"
    progress.end()
    assert out.getvalue().endswith("\r\x1b[K")


def test_elsewhere_there_is_a_plain_line_now_and_then() -> None:
    out, now = io.StringIO(), [0.0]
    progress = Progress(out, lambda: now[0])
    progress.begin("copying", 100 << 20)
    for second in range(1, 12):
        now[0] = float(second)
        progress.at(second * (5 << 20))
    progress.end()
    assert out.getvalue().splitlines() == [
        "copying: 25%  25 of 100 MiB  5 MB/s  15 s left",
        "copying: 50%  50 of 100 MiB  5 MB/s  10 s left",
    ]


def test_a_quiet_one_says_nothing() -> None:
    out = Terminal()
    progress = Progress(out, lambda: 100.0, quiet=True)
    progress.begin("verifying", 1)
    progress.at(1)
    progress.end()
    assert out.getvalue() == ""
