from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.subscriptions import SubscriptionData
from wire.bodies.tools.statistics import QueueUnit, QueueUnits
from wire.tests.bodies.strategies import assert_comes_back, int32s, texts
from wire.tests.message.strategies import QUICK


def test_the_answer_has_the_members_of_a_java_broker() -> None:
    assert QueueUnits([QueueUnit(10, 20, 30, is_accepted=True, text="m")], 1, 2).build() == (
        b'{"maxQueueIndex":2,"minQueueIndex":1,'
        b'"queueData":[{"eval":true,"msg":"m","physicOffset":10,"physicSize":20,"tagsCode":30}]}'
    )


@QUICK
@given(int32s, int32s, int32s, st.booleans(), texts)
def test_units_come_back(position: int, size: int, tags_code: int, accepted: bool, text: str) -> None:
    unit = QueueUnit(position, size, tags_code, is_accepted=accepted, text=text)
    assert_comes_back(
        QueueUnits((unit,), 1, 2, SubscriptionData("t", "a || b", frozenset({"a", "b"}), frozenset({97, 98})), text)
    )
