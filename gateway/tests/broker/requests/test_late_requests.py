"""Requests that are rare are loaded when the first one is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode

START = """
import sys
import gateway.broker.service
print(*sorted(name for name in sys.modules if name.startswith("gateway.broker.requests.")))
"""


def test_a_start_loads_no_rare_request() -> None:
    loaded = subprocess.run([sys.executable, "-c", START], check=True, capture_output=True, text=True).stdout.split()
    assert "gateway.broker.requests.sending.send" in loaded
    assert "gateway.broker.requests.rare.broker_info" not in loaded
    assert not [name for name in loaded if name.startswith("gateway.broker.requests.rare.")]


def test_a_rare_request_is_answered_when_it_comes(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    peer = broker.connect()
    assert broker.ask(peer, RequestCode.GET_BROKER_CONFIG).code == ResponseCode.SUCCESS
    assert broker.ask(peer, 4711).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert broker.ask(peer, RequestCode.GET_ALL_DELAY_OFFSET).code == ResponseCode.SUCCESS
    broker.stop()
