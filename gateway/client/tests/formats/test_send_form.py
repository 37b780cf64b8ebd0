import pytest

from gateway.client.formats.outgoing import plain_properties
from gateway.client.formats.send_form import SendFrames, json_text
from gateway.client.message import Message, MessageQueue
from wire.codes import SERVER_VERSION, LanguageCode, RequestCode
from wire.connection import Connection
from wire.headers.declare import parse_header
from wire.headers.send import ShortSendMessageRequest


@pytest.mark.parametrize(
    ("topic", "properties"),
    [("t", "WAIT\x01true\x02UNIQ_KEY\x01ID\x02"), ("50%|%d", 'quote"\\ Zürich 東京 🚀 %s \x01\x02'), ("%RETRY%g", "")],
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_filled_form_is_the_frame_of_its_header(topic: str, properties: str, batch: bool) -> None:
    code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
    queue = MessageQueue(topic, "broker-a", 3)
    form = SendFrames(code, "g", queue, create_topic_key="TBW102", topic_queues=4, batch=batch)
    frame = form.build((0x301, 1_700_000_000_000, -5, json_text(properties), 2, 7), b"body")
    (command,) = Connection().receive_data(frame)
    assert (command.code, command.opaque, command.flag, command.body) == (code, 7, 2, b"body")
    assert (command.language, command.version) == (LanguageCode.PYTHON, SERVER_VERSION)
    assert parse_header(ShortSendMessageRequest, command.ext_fields) == ShortSendMessageRequest(
        producer_group="g",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=3,
        sys_flag=0x301,
        born_timestamp=1_700_000_000_000,
        flag=-5,
        properties=properties,
        reconsume_times=0,
        unit_mode=False,
        batch=batch,
        broker_name="broker-a",
    )


@pytest.mark.parametrize("topic", ["t", "50%|%d"])
def test_the_form_of_plain_messages_is_the_same_with_less_to_fill_in(topic: str) -> None:
    queue = MessageQueue(topic, "broker-a", 3)
    form = SendFrames(RequestCode.SEND_MESSAGE_V2, "g", queue, create_topic_key="TBW102", topic_queues=4, batch=False)
    properties = plain_properties(Message("t", b"body"), "7F0000010001")
    assert properties is not None
    full = form.build((0, 1_700_000_000_000, 0, properties, 0, 7), b"body")
    assert form.build_plain(7, 1_700_000_000_000, "7F0000010001", b"body") == full
