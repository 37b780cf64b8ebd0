"""The pages for those who come from another client name what is there, with the defaults that it has."""

from __future__ import annotations

import dataclasses
import re
from enum import Enum
from pathlib import Path

import pytest

import gateway.client
from gateway.client.blocking import admin

DOCS = Path(__file__).parents[4] / "docs" / "python-client"
JAVA = DOCS / "from-java.md"
PAGES = (JAVA, DOCS / "from-rocketmq-client-python.md")
PARTS = {
    "topics": admin.BlockingTopics,
    "groups": admin.BlockingGroups,
    "offsets": admin.BlockingOffsets,
    "messages": admin.BlockingMessages,
    "cluster": admin.BlockingCluster,
}
CLIENTS = ("Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "SimpleConsumer", "AdminClient")
LISTENERS = {"check", "execute"}
_HEAD = re.compile(r"\| Java \| default \| `(\w+)` \| default \|\n\|[-|]+\|\n((?:\|.*\|\n)+)")


def _settings_tables() -> dict[str, dict[str, str]]:
    """Settings class → setting → default, as the page has them."""
    return {
        name: {cells[2]: cells[3] for row in rows.splitlines() if (cells := _cells(row))}
        for name, rows in _HEAD.findall(JAVA.read_text(encoding="utf-8"))
    }


def _cells(row: str) -> list[str]:
    return [cell.strip().strip("`") for cell in row.split("|")[1:-1]]


def _shown(value: object) -> str:
    if isinstance(value, Enum):
        return value.name
    return f"{type(value).__name__}()" if repr(value).startswith("<") else repr(value)


@pytest.mark.parametrize(
    "name", ["ClientSettings", "ProducerSettings", "TransactionSettings", "PushSettings", "LitePullSettings"]
)
def test_settings_are_there_with_the_default_that_the_page_says(name: str) -> None:
    table = _settings_tables()[name]
    settings = getattr(gateway.client, name)()
    for setting, default in table.items():
        if "(" not in setting:  # an argument of a method
            assert default == _shown(getattr(settings, setting)), setting


def test_the_tables_have_every_setting_of_a_java_client() -> None:
    tables = _settings_tables()
    listed = {setting for table in tables.values() for setting in table}
    for name in tables:
        for entry in dataclasses.fields(getattr(gateway.client, name)):
            assert entry.name in listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_methods_are_there(page: Path) -> None:
    known = {*gateway.client.__all__, *LISTENERS}
    for name in CLIENTS:
        known.update(dir(getattr(gateway.client, name)))
    for row in re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE):
        here = re.split(r"(?<!\\)\|", row)[2]
        for part, name in re.findall(r"`(?:AdminClient\.)?(?:(\w+)\.)?(\w+)\(", here):
            if part in PARTS:
                assert hasattr(PARTS[part], name), f"{part}.{name}"
            elif part != "properties":  # a mapping
                assert name in known, name
