"""The page of request codes says what the servers do, that of requests to clients what the broker asks its clients."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

from wire.codes import RequestCode

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "request_codes.py"
FROM_TOOLS = {RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY}
"""A tool asks the broker, and the broker asks the client under the same code."""
ANSWERED_WITH_CALLS = FROM_TOOLS | {
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
}
"""Clients may need the broker, a listener or a sleep for their answers."""


def test_the_page_is_what_its_script_writes() -> None:
    script = run_path(str(SCRIPT))
    page: str = script["page"]()
    assert script["PAGE"].read_text(encoding="utf-8") == page, "run: python docs/request_codes.py"


def test_each_code_belongs_to_one_kind_of_server() -> None:
    script = run_path(str(SCRIPT))
    assert not script["TO_NAME_SERVERS"] & script["TO_OTHERS"]


def test_point_1_each_request_to_clients_is_on_the_page_that_says_what_it_can_hold_up() -> None:
    text = (ROOT / "docs" / "requests-to-clients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \((\d+)\) \|", text, re.MULTILINE)
    asked = run_path(str(SCRIPT))["TO_CLIENTS"] | FROM_TOOLS
    assert sorted(rows) == sorted((code.name, str(code.value)) for code in asked)


def test_point_1_only_requests_of_tools_ask_clients_what_they_answer_with_calls_of_their_own() -> None:
    pattern = re.compile(rf"RequestCode\.({'|'.join(code.name for code in ANSWERED_WITH_CALLS)})\b")
    product = [path for path in (ROOT / "gateway").rglob("*.py") if "tests" not in path.parts]
    named = {path.relative_to(ROOT / "gateway") for path in product if pattern.search(path.read_text(encoding="utf-8"))}
    assert {path.parts[:3] for path in named if path.parts[0] != "client"} == {("broker", "requests", "rare")}
