"""Requests of tools are loaded when the first one is asked for, and are then all there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.broker.parts import BROKER_INFO_CODES, STATISTICS_CODES
from gateway.remoting.dispatch import Dispatch
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode


def answered(dispatch: Dispatch) -> set[RequestCode]:
    return {RequestCode(code) for code, _, implemented in dispatch.table() if implemented}


@pytest.mark.parametrize(("codes", "group"), [(STATISTICS_CODES, "_statistics"), (BROKER_INFO_CODES, "_broker_info")])
def test_a_late_group_answers_exactly_the_codes_it_is_loaded_for(
    codes: tuple[RequestCode, ...], group: str, tmp_path: Path
) -> None:
    load: Callable[[], object] = getattr(WholeBroker(tmp_path).parts, group)
    dispatch = Dispatch()
    dispatch.loads(codes, load)  # type: ignore[arg-type]
    assert answered(dispatch) == set(codes)
    dispatch._late[codes[0]]()
    assert dispatch._late == {}
    assert answered(dispatch) == set(codes)
