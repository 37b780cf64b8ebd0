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
    with pytest.raises(GatewayError, match="state-store does not say which transaction state store") as refused:
        remembered.load()
    assert "restore it from a copy of the directory, or write its lines anew: store=queue" in str(refused.value)
    assert "sequence element" not in str(refused.value)


def test_the_database_is_named_whatever_its_name_looks_like(tmp_path: Path) -> None:
    saved = Remembered(identity="abc", tokens=("new", ""), database="sqlite:/a=b\nstore=queue é")
    RememberedStore(tmp_path).save(saved)
    assert RememberedStore(tmp_path).load() == saved


def test_a_name_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match="transactionDatabase is longer than"):
        RememberedStore(tmp_path).save(Remembered(identity="abc", database="sqlite:/" + "x" * 70_000))


@pytest.mark.parametrize("name", ["tablemark", "transactions.db"])
def test_a_file_that_was_lost_is_not_taken_for_a_queue(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(GatewayError, match=f"state-store is missing, but there is {name}"):
        RememberedStore(tmp_path).load()
