"""Worlds whose pending transactions are in a table or in SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.settings.transaction import TransactionStateStore
from gateway.tests.transaction.world import World
from gateway.transaction.state_stores.choice import StateChoice

QUEUE, TABLE, DATABASE = TransactionStateStore
OTHERS = TABLE, DATABASE


def choice(root: Path, wanted: TransactionStateStore, **more: Any) -> StateChoice:
    return StateChoice(root=root, wanted=wanted, make_identity=lambda: "tests", file_units=8, **more)


def world_of(root: Path, wanted: TransactionStateStore, **more: Any) -> World:
    return World(root, choice=choice(root, wanted), **more)


def follow(world: World) -> None:
    """Let the state store be told of everything."""
    world.wait(0.5)
