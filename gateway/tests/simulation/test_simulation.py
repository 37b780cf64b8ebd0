"""Some histories, of which each must keep every promise; and the same seed is the same history.

A sample of what ``python -m gateway.tests.simulation`` does in full.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from gateway.cli.version import is_compiled
from gateway.tests.simulation.__main__ import main
from gateway.tests.simulation.campaign import Kind
from gateway.tests.simulation.controlled.history import ControlledHistory
from gateway.tests.simulation.history import Account, History
from gateway.tests.simulation.popping.history import PoppingHistory

pytestmark = pytest.mark.skipif(is_compiled(), reason="parts of compiled modules cannot be replaced")

CHUNKS, CHUNK = 4, 15
"""The sample: the ordinary test run shall not wait long."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Log nothing, and free the coroutines of killed processes between histories: what they do then is nobody's."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_promise_is_kept(chunk: int) -> None:
    total = Account()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        total.add(History(seed).play())
    assert total.acknowledged > CHUNK, "too few to mean anything"
    assert total.promotions > 0
    assert total.without_copy > 0


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_promise_is_kept_while_a_controller_decides(chunk: int) -> None:
    total = Account()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        total.add(ControlledHistory(seed).play())
    assert total.acknowledged > CHUNK, "too few to mean anything"
    assert total.promotions > CHUNK, "each begins with one"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_group_that_pops_gets_everything(chunk: int) -> None:
    total = Account()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        total.add(PoppingHistory(seed).play())
    assert total.acknowledged > CHUNK, "too few to mean anything"


@pytest.mark.parametrize("seed", [140, 143, 167, 172, 211, 370, 392])
def test_what_popping_histories_found_stays_mended(seed: int) -> None:
    PoppingHistory(seed).play()


@pytest.mark.parametrize("kind", [History, ControlledHistory, PoppingHistory])
def test_the_same_seed_is_the_same_history_byte_for_byte(kind: Kind) -> None:
    traces = []
    for _ in range(2):
        history = kind(22, is_traced=True)
        history.play()
        traces.append(history.world.trace)
    assert len(traces[0] or ()) > 100
    assert traces[0] == traces[1]


def test_the_command_tells_what_happened() -> None:
    result = CliRunner().invoke(main, ["--seeds", "2", "--first", "40"])
    assert result.exit_code == 0, result.output
    assert "0 findings" in result.output
    assert "SEND_OK" in CliRunner().invoke(main, ["--seed", "7", "--trace"]).output
    assert "pop of " in CliRunner().invoke(main, ["--pops", "--seed", "22", "--trace"]).output
    assert "controller elects" in CliRunner().invoke(main, ["--controller", "--seed", "7", "--trace"]).output
