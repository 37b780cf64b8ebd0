from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.message_queue import MessageQueue
from wire.bodies.tools.statistics import ConsumeTimeSpans, QueueTimeSpan
from wire.tests.bodies.strategies import assert_comes_back, int32s, texts
from wire.tests.message.strategies import QUICK

QUEUE = MessageQueue("t", "b", 0)


def test_the_answer_has_the_members_of_a_java_broker() -> None:
    span = QueueTimeSpan(QUEUE, 1, 2, 3, 4, "a", "b", "c")
    assert ConsumeTimeSpans([span]).build() == (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":3,"consumeTimeStampStr":"c","delayTime":4,"maxTimeStamp":2,'
        b'"maxTimeStampStr":"b","messageQueue":{"brokerName":"b","queueId":0,"topic":"t"},"minTimeStamp":1,'
        b'"minTimeStampStr":"a"}]}'
    )


@QUICK
@given(st.builds(QueueTimeSpan, st.builds(MessageQueue, texts, texts, int32s), int32s, int32s, int32s, int32s))
def test_time_spans_come_back(span: QueueTimeSpan) -> None:
    assert_comes_back(ConsumeTimeSpans((span,)))
