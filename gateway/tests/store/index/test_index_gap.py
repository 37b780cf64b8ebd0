"""Index files that are missing between others: noticed, and filled again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.store.keyed_messages import check, fill
from gateway.tests.store.small_store import Executor, killed, opened, small_store


@pytest.mark.parametrize("positions", [[0], [1], [0, 1], [2, 3], [1, 4]])
@pytest.mark.parametrize("kill", [False, True])
def test_lost_older_index_files_are_noticed_and_filled_again(tmp_path: Path, positions: list[int], kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    fill(store, 150)
    store.flush()
    names = sorted((directory / "index").iterdir())
    assert len(names) > 6
    if kill:
        directory = killed(directory)
        names = sorted((directory / "index").iterdir())
    else:
        store.close()
    for position in positions:
        names[position].unlink()
    store = small_store(directory)
    remarks = store.open().remarks
    assert [any(str(path) in remark for remark in remarks) for path in names] == [
        position in positions for position in range(len(names))
    ]
    check(store, 150)
    fill(store, 20, 150)
    check(store, 170)
    store.close()
    assert sorted((directory / "index").iterdir())[: len(names)] == names, "no gap is left, and no file more"
    store = small_store(directory)
    assert store.open().remarks == []
    assert store._index.backlog == 0
    check(store, 170)


def test_filling_a_gap_that_was_cut_short_begins_anew(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    fill(store, 150)
    store.close()
    names = sorted((directory / "index").iterdir())
    names[1].unlink()
    executor = Executor()
    store = small_store(directory, soon=executor.soon)
    store.open()
    assert store._index.build(5) == 5, "some of it"
    assert store._index.backlog
    store.flush()
    for number in range(2):  # as a kill left it, and once more after that
        copy = killed(directory, number)
        again = small_store(copy)
        assert any(names[1].name in remark for remark in again.open().remarks)
        check(again, 150)
        again.close()
        assert opened(copy)._index.backlog == 0
