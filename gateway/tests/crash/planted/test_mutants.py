"""Every planted bug is found: without these, a quiet enumeration would mean nothing."""

from __future__ import annotations

import pytest

from gateway.cli.version import is_compiled
from gateway.tests.crash.exploration import Exploration, Finding
from gateway.tests.crash.planted.mutants import MUTANTS
from gateway.tests.crash.workload import WORKLOADS

pytestmark = pytest.mark.skipif(is_compiled(), reason="a compiled method cannot be replaced by a wrong one")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.plant(monkeypatch.setattr)
    with pytest.raises(Finding) as found:
        Exploration(WORKLOADS[mutant.workload], mutant.seed).run()
    assert found.value.images <= mutant.within, str(found.value)


def test_a_finding_says_what_was_lost_and_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["log not synced"].plant(monkeypatch.setattr)
    with pytest.raises(Finding) as found:
        Exploration(WORKLOADS["append"], seed=1).run()
    text = str(found.value)
    assert "lost: write /data/store/commitlog/00000000000000000000" in text
    assert text.endswith("again: python -m gateway.tests.crash --workload append --seed 1 --rounds 1")


def test_a_finding_is_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["log not synced"].plant(monkeypatch.setattr)
    texts = set()
    for _ in range(2):
        with pytest.raises(Finding) as found:
            Exploration(WORKLOADS["batch"], seed=2).run()
        texts.add(str(found.value))
    assert len(texts) == 1
