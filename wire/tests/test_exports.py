"""The public list of the package."""

from __future__ import annotations

import ast
import inspect

import pytest

import wire
from wire import codes, errors


def test_every_exported_name_exists_and_is_listed_once_in_order() -> None:
    assert len(wire.__all__) == len(set(wire.__all__))
    assert all(hasattr(wire, name) for name in wire.__all__)


def test_what_is_loaded_at_first_use_is_what_type_checkers_are_told() -> None:
    tree = ast.parse(inspect.getsource(wire))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.name: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert told == {name: f"wire.{module}" for name, module in wire._MODULES.items()}
    assert set(told) == set(wire.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = wire.Nonsense


def test_every_error_can_be_caught_by_its_public_name() -> None:
    kinds = {name for name, value in vars(errors).items() if inspect.isclass(value)}

    assert kinds <= set(wire.__all__)


def test_every_enum_of_codes_is_public() -> None:
    enums = {
        name for name, value in vars(codes).items() if inspect.isclass(value) and value.__module__ == codes.__name__
    }

    assert enums <= set(wire.__all__)
