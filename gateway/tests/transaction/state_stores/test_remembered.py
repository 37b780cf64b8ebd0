from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.tests.transaction.state_stores.stores import QUEUE, TABLE
from gateway.transaction.state_stores.remembered import Remembered, RememberedStore


def test_a_directory_without_the_file_uses_the_queue(tmp_path: Path) -> None:
    remembered = RememberedStore(tmp_path / "transaction").load()
    assert (remembered.store, remembered.first) == (QUEUE, 0)
    assert remembered.identity


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    directory = tmp_path / "transaction"
    saved = Remembered(store=TABLE, first=17, identity="abc")
    RememberedStore(directory).save(Remembered(identity="other"))
    RememberedStore(directory).save(saved)
    assert RememberedStore(directory).load() == saved
    assert [path.name for path in directory.iterdir()] == ["state-store"]


@pytest.mark.parametrize("text", ["", "store=table\n", "store=x\nfirst=0\nidentity=a\n", "store=table\nfirst=?\n", "?"])
def test_a_file_that_says_nothing_ends_the_start(tmp_path: Path, text: str) -> None:
    remembered = RememberedStore(tmp_path)
    remembered.path.write_text(text)
    with pytest.raises(GatewayError, match="state-store does not say which transaction state store"):
        remembered.load()


@pytest.mark.parametrize("name", ["tablemark", "transactions.db"])
def test_a_file_that_was_lost_is_not_taken_for_a_queue(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(GatewayError, match=f"state-store is missing, but there is {name}"):
        RememberedStore(tmp_path).load()
