"""Every planted bug of the state stores is found."""

from __future__ import annotations

import pytest

from gateway.tests.crash.exploration import Exploration, Finding
from gateway.tests.crash.planted.state_mutants import IMAGES, STATE_MUTANTS
from gateway.tests.crash.workload import WORKLOADS


@pytest.mark.parametrize("name", STATE_MUTANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = STATE_MUTANTS[name]
    mutant.plant(monkeypatch.setattr)
    with pytest.raises(Finding) as found:
        Exploration(WORKLOADS[mutant.workload], mutant.seed, images=IMAGES).run()
    assert found.value.images <= mutant.within, str(found.value)
