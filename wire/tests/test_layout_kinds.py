"""The members of layouts, and that construct is loaded for none of them unasked."""

from __future__ import annotations

import subprocess
import sys

import construct

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


def test_construct_is_not_loaded_before_it_is_asked_for() -> None:
    code = "import sys, wire, wire.disk.index_file, wire.message.batch; sys.exit('construct' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
