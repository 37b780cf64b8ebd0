from __future__ import annotations

from gateway.tests.compiled import MODULES, interpreted
from wire.compiled import IS_COMPILED


def test_either_all_of_them_are_compiled_or_none_is() -> None:
    assert interpreted() == ([] if IS_COMPILED else [path.removesuffix(".py").replace("/", ".") for path in MODULES])
