"""The page of the figures, which Prometheus reads: made in several turns, once for all who ask within a moment.

A broker with many topics has a hundred thousand lines, which take half a second. Others have their turns meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from itertools import islice

from gateway.broker.pages.answers import Answered, PageAnswer, text_answer
from gateway.reactor.interface import TimeSource
from gateway.telemetry.exposition import CONTENT_TYPE, exposition_lines
from gateway.telemetry.logs import EventLog
from gateway.telemetry.metrics import Registry

log = EventLog("pages")

MAX_PAGE_AGE_SECONDS = 1
"""Seconds after a page was made during which the same page answers further requests."""
LINES_PER_TURN = 2_000
"""The number of lines that are made in one turn of the reactor, in about 10 ms."""


class FiguresPage:
    """A ``Page`` with the metrics.

    :param labels: the labels of every series.
    """

    def __init__(self, registry: Registry, labels: Mapping[str, str], reactor: TimeSource) -> None:
        self._registry = registry
        self._labels = dict(labels)
        self._reactor = reactor
        self._answer: PageAnswer | None = None
        self._made_at_s = 0.0
        self._waiting: list[Answered] = []

    def __call__(self, answered: Answered) -> None:
        """Call back with the page once it is made."""
        answer = self._answer
        if answer is not None and self._reactor.seconds() - self._made_at_s < MAX_PAGE_AGE_SECONDS:
            answered(answer)
            return
        self._waiting.append(answered)
        if len(self._waiting) == 1:
            self._make(exposition_lines(self._registry.metrics(), self._labels), [])

    def _make(self, lines: Iterator[str], done: list[str]) -> None:
        """Make the next lines; after the last lines all waiting requests get the page."""
        try:
            part = list(islice(lines, LINES_PER_TURN))
        except Exception as error:  # noqa: BLE001 - whatever a figure does, monitors get an answer
            log.error("the figures could not be read", failure=error)
            failed = "the figures could not be read; the log says why"
            self._tell(text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, failed))
            return
        done.extend(part)
        if len(part) == LINES_PER_TURN:
            self._reactor.callLater(0, self._make, lines, done)
            return
        self._answer = PageAnswer(HTTPStatus.OK, "".join(done).encode(), CONTENT_TYPE)
        self._made_at_s = self._reactor.seconds()
        self._tell(self._answer)

    def _tell(self, answer: PageAnswer) -> None:
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered(answer)
