"""The public list of the package."""

from __future__ import annotations

import inspect

import wire
from wire import codes, errors


def test_every_exported_name_exists_and_is_listed_once_in_order() -> None:
    assert len(wire.__all__) == len(set(wire.__all__))
    assert all(hasattr(wire, name) for name in wire.__all__)
    assert set(wire.__all__) == {name for name in vars(wire) if name in wire.__all__}


def test_everything_imported_into_the_package_is_exported() -> None:
    imported = {
        name
        for name, value in vars(wire).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }

    assert imported == set(wire.__all__)


def test_every_error_can_be_caught_by_its_public_name() -> None:
    kinds = {name for name, value in vars(errors).items() if inspect.isclass(value)}

    assert kinds <= set(wire.__all__)


def test_every_enum_of_codes_is_public() -> None:
    enums = {
        name for name, value in vars(codes).items() if inspect.isclass(value) and value.__module__ == codes.__name__
    }

    assert enums <= set(wire.__all__)
