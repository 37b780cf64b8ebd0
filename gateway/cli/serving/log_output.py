"""Where the log goes: our events and Twisted's, one line each, to standard error."""

from __future__ import annotations

import logging
import sys

from twisted.logger import STDLibLogObserver, globalLogBeginner

from gateway.reactor.interface import TimeSource
from gateway.telemetry.logs import LimitedLines, write_lines_to

TELL_LEFT_OUT_EVERY_S = 60.0
"""Seconds between two looks for lines that were left out and have to be told of."""


def begin_logging(level: str, **facts: str) -> LimitedLines:
    """From now on everything that is logged in this process is written to standard error, each line with ``facts``.

    Of Twisted's own events only warnings and errors, which are unhandled failures: its "Starting factory"
    says nothing that our events do not say better.
    """
    handler = write_lines_to(sys.stderr, logging.getLevelNamesMapping()[level], facts)
    logging.captureWarnings(True)
    logging.getLogger("twisted").setLevel(logging.WARNING)
    globalLogBeginner.beginLoggingTo([STDLibLogObserver("twisted")], redirectStandardIO=False)
    return handler


def tell_regularly(handler: LimitedLines, reactor: TimeSource) -> None:
    """Tell once a minute of the lines that were left out, as long as the reactor runs."""

    def tell() -> None:
        handler.tell_left_out()
        reactor.callLater(TELL_LEFT_OUT_EVERY_S, tell)

    reactor.callLater(TELL_LEFT_OUT_EVERY_S, tell)
