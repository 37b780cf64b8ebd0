"""A broker without a reactor, as `benchmarks.request_cost` asks it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.request_cost import BODY_BYTES, Broker, pull, send
from gateway.remoting.answers.answer_room import TURN_BYTES


def test_every_pull_is_answered_however_many_large_answers_there_are(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    try:
        send(broker, 131)
        pulled = 0
        while pulled * BODY_BYTES <= TURN_BYTES:
            pulled += pull(broker, 131)
    finally:
        broker.close()
