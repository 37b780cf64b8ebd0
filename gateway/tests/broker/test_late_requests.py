"""Requests of tools are loaded when the first one is asked for, and are then all there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.broker.parts import BrokerParts
from gateway.broker.tool_requests import LOADED_LATE
from gateway.remoting.dispatch import Dispatch, RequestGroup
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode


def answered(dispatch: Dispatch) -> set[RequestCode]:
    return {RequestCode(code) for code, _, implemented in dispatch.table() if implemented}


@pytest.mark.parametrize(("codes", "load"), LOADED_LATE.items())
def test_a_late_group_answers_exactly_the_codes_it_is_loaded_for(
    codes: tuple[RequestCode, ...], load: Callable[[BrokerParts], RequestGroup], tmp_path: Path
) -> None:
    parts = WholeBroker(tmp_path).parts
    dispatch = Dispatch()
    dispatch.loads(codes, lambda: load(parts))
    assert answered(dispatch) == set(codes)
    dispatch._late[codes[0]]()
    assert dispatch._late == {}
    assert answered(dispatch) == set(codes)
