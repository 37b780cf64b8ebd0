"""A store is known again, and another one is told from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.requests.rare.broker_info import FILE_NAME, store_identity
from gateway.errors import GatewayError
from gateway.metadata.saved.json_file import JsonFile


def test_a_store_keeps_its_identity(tmp_path: Path) -> None:
    made = iter(("one", "two"))
    assert store_identity(JsonFile(tmp_path / FILE_NAME), made.__next__) == "one"
    assert store_identity(JsonFile(tmp_path / FILE_NAME), made.__next__) == "one"
    assert store_identity(JsonFile(tmp_path / "other" / FILE_NAME), made.__next__) == "two"


@pytest.mark.parametrize("content", [b"{}", b"junk", b'{"storeId":5}'])
def test_an_identity_that_cannot_be_read_is_not_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    with pytest.raises(GatewayError):
        store_identity(JsonFile(path), lambda: "new")
    assert path.read_bytes() == content
