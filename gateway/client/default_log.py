"""The log of this package in a program that has not set up logging: each kind of problem is shown once.

Without a handler, an exception in a listener would be invisible. Python's own last resort shows every warning, so an
absent broker would fill the terminal.
"""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Final

MOST_KINDS: Final = 100
"""The number of kinds of problems that are shown in a process. Programs that set up logging see all of them."""

HINT: Final = (
    "(Logging is not set up, so gateway.client shows each kind of problem once. logging.basicConfig() shows all of "
    'them; logging.getLogger("gateway.client").addHandler(logging.NullHandler()) shows none.)'
)


class OncePerKind(logging.Handler):
    """Writes one warning or error of each kind to standard error, as long as no other handler would get the record.

    :param hint: a text that is written below the first record.
    """

    def __init__(self, hint: str = HINT) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        self._hint = hint
        self._shown: set[tuple[object, ...]] = set()
        self._is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record if its kind was not shown before."""
        stream = sys.stderr
        if stream is None or self._is_closed or logging.lastResort is None or self._is_set_up(record.name):
            return
        kind = _kind(record)
        if kind in self._shown or len(self._shown) >= MOST_KINDS:
            return
        try:
            lines = [self.format(record)]
            if self._hint and not self._shown:
                lines.append(self._hint)
            stream.write("\n".join(lines) + "\n")
            stream.flush()
        except Exception:  # noqa: BLE001 - a log line never fails the work it tells of
            self.handleError(record)
        self._shown.add(kind)

    def close(self) -> None:
        """Show nothing more, since the program ends: a thread that is frozen while writing would damage the output."""
        self._is_closed = True
        super().close()

    def _is_set_up(self, name: str) -> bool:
        """Return whether the program has a handler for a logger, or wants none."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self and not _is_servers(logger, handler) for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def _is_servers(logger: logging.Logger, handler: logging.Handler) -> bool:
    """Return whether a handler is the one that the server's part of the package adds at its import."""
    return logger.name == "gateway" and isinstance(handler, logging.NullHandler)


def _kind(record: logging.LogRecord) -> tuple[object, ...]:
    """Return the kind of a record: the line that wrote the record, and the types of its arguments and its exception.

    The place where the exception was raised belongs to the kind, too.

    Errors of brokers are distinguished by their code as well.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    told = tuple((type(argument), str(getattr(argument, "code", ""))) for argument in arguments)
    _, error, trace = record.exc_info or (None, None, None)
    return (record.name, record.lineno, told, type(error), _place(trace))


def _place(trace: TracebackType | None) -> tuple[str, int] | None:
    """Return the file and the line in which an exception was raised."""
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
