"""The members of layouts, and that construct is loaded for none of them unasked."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import construct

import wire
from wire import layout_kinds
from wire.layout_kinds import Bytes, Int8sb, Int16ub, Int32sb, Int64sb, Kind, Struct


def test_every_kind_is_the_one_of_construct_with_its_name() -> None:
    kinds = {name: kind for name, kind in vars(layout_kinds).items() if isinstance(kind, Kind)}
    assert kinds
    for name, kind in kinds.items():
        assert (kind.name, kind.fmtstr) == (name, getattr(construct, name).fmtstr)


def test_a_declaration_is_interpreted_as_construct_does() -> None:
    declared = Struct("a" / Int8sb, "b" / Bytes(3), "c" / Int16ub, "d" / Int64sb, "e" / Int32sb).interpreted()
    raw = declared.build({"a": -1, "b": b"xyz", "c": 65_535, "d": 1, "e": -2})
    assert raw == b"\xffxyz\xff\xff" + b"\0" * 7 + b"\x01" + b"\xff\xff\xff\xfe"
    assert declared.parse(raw).b == b"xyz"


def test_construct_is_loaded_by_no_module_before_it_is_asked_for() -> None:
    modules = [
        module.name
        for module in pkgutil.walk_packages(wire.__path__, "wire.")
        if ".tests" not in module.name and not module.name.endswith("__main__")
    ]
    code = f"import sys, {', '.join(modules)}; sys.exit('construct' in sys.modules)"
    assert len(modules) > 50
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
