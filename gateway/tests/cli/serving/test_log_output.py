"""Twisted's events become lines like ours."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest
from twisted.logger import LogBeginner, Logger, LogPublisher

from gateway.cli.serving import run


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogPublisher]:
    publisher = LogPublisher()
    beginner = LogBeginner(publisher, io.StringIO(), sys, __import__("warnings"))
    monkeypatch.setattr(run, "globalLogBeginner", beginner)
    monkeypatch.setattr(logging, "captureWarnings", lambda _: None)
    root, twisted = logging.getLogger(), logging.getLogger("twisted")
    before = (list(root.handlers), root.level, twisted.level)
    yield publisher
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    twisted.setLevel(before[2])


def test_a_failure_that_twisted_logs_is_one_line_on_standard_error(
    publisher: LogPublisher, capsys: pytest.CaptureFixture[str]
) -> None:
    run.begin_logging("INFO")
    logger = Logger("trial", observer=publisher)
    logger.info("Starting factory")
    try:
        raise ValueError("lost")
    except ValueError:
        logger.failure("Unhandled error")
    (line,) = capsys.readouterr().err.splitlines()
    assert 'level=critical part=twisted event="Unhandled error"' in line
    assert 'error="ValueError: lost"' in line
