"""Where the log goes: our events and Twisted's, one line each, to standard error."""

from __future__ import annotations

import logging
import sys

from twisted.logger import STDLibLogObserver, globalLogBeginner

from gateway.telemetry.logs import write_lines_to


def begin_logging(level: str, **facts: str) -> None:
    """From now on everything that is logged in this process is written to standard error, each line with ``facts``.

    Of Twisted's own events only warnings and errors, which are unhandled failures: its "Starting factory"
    says nothing that our events do not say better.
    """
    write_lines_to(sys.stderr, logging.getLevelNamesMapping()[level], facts)
    logging.captureWarnings(True)
    logging.getLogger("twisted").setLevel(logging.WARNING)
    globalLogBeginner.beginLoggingTo([STDLibLogObserver("twisted")], redirectStandardIO=False)
