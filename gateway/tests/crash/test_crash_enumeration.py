"""After a crash at any place: nothing acknowledged is lost, doubled, changed or invented.

A sample of what ``python -m gateway.tests.crash`` does in full.
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from gateway.tests.crash.__main__ import main
from gateway.tests.crash.exploration import Exploration
from gateway.tests.crash.workload import WORKLOADS
from wire.compiled import IS_COMPILED

IMAGES = 20
"""Of each workload: the ordinary test run shall not wait long."""
FOUND = [
    # A queue whose messages are all deleted ended with a file; the next file lost its size, and the queue its end.
    ("retention-async", 200),
    # A stop passed over the second in which the broker had begun, before anybody had read its timer messages.
    ("timer-reopen-async", 13),
    # A stop soon after a start passed over the first second of the time before the start, and delivered the rest again.
    ("timer-recall-async", 17),
]
"""Each is found again within as many images as of any other seed."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_promise_is_kept_after_a_crash(name: str) -> None:
    progress = Exploration(WORKLOADS[name], seed=1, images=IMAGES).run()
    assert progress.images >= IMAGES / 4, "too few to mean anything"
    assert progress.lives == WORKLOADS[name].lives


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_was_found_once_stays_mended(name: str, seed: int) -> None:
    assert Exploration(WORKLOADS[name], seed, images=IMAGES).run().images > IMAGES


def test_the_same_seed_makes_the_same_images() -> None:
    first, again = (Exploration(WORKLOADS["batch"], seed=3, images=10).run() for _ in range(2))
    assert first == again


def test_another_seed_makes_others() -> None:
    changes = {Exploration(WORKLOADS["append"], seed, images=5).run().changes for seed in range(3)}
    assert len(changes) > 1


def test_the_command_tells_how_many_images_there_were() -> None:
    result = CliRunner().invoke(main, ["--workload", "tables", "--rounds", "1", "--seed", "5", "--sample", "20"])
    assert result.exit_code == 0, result.output
    assert "every promise kept" in result.output


def test_a_run_that_is_meant_to_be_compiled_is_refused_when_it_is_not() -> None:
    result = CliRunner().invoke(main, ["--compiled", "--workload", "tables", "--rounds", "1", "--sample", "5"])
    assert (result.exit_code, "not compiled" in result.output) == ((0, False) if IS_COMPILED else (1, True))
