"""The output of the log: our events and Twisted's, one line each, to standard error."""

from __future__ import annotations

import logging
import sys

from twisted.logger import STDLibLogObserver, globalLogBeginner

from gateway.reactor.interface import TimeSource
from gateway.telemetry.logs import LimitedLines, write_lines_to

TELL_LEFT_OUT_EVERY_S = 60.0
"""Seconds between two reports of lines that were left out."""


def begin_logging(level: str, **facts: str) -> LimitedLines:
    """Write all log events of this process to standard error from now on, each line with ``facts``.

    Only warnings and errors of Twisted's own events are written; its errors are unhandled failures. Twisted's "Starting
    factory" adds nothing to our events.
    """
    handler = write_lines_to(sys.stderr, logging.getLevelNamesMapping()[level], facts)
    logging.captureWarnings(True)
    logging.getLogger("twisted").setLevel(logging.WARNING)
    globalLogBeginner.beginLoggingTo([STDLibLogObserver("twisted")], redirectStandardIO=False)
    return handler


def tell_regularly(handler: LimitedLines, reactor: TimeSource) -> None:
    """Report left-out lines once a minute, as long as the reactor runs."""

    def tell() -> None:
        handler.tell_left_out()
        reactor.callLater(TELL_LEFT_OUT_EVERY_S, tell)

    reactor.callLater(TELL_LEFT_OUT_EVERY_S, tell)
