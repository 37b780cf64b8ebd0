from gateway.client.formats import trace
from gateway.client.formats.trace import Consumed, Published, TraceMessageType, TraceRecord, trace_messages
from gateway.client.message import Message


def test_a_sent_message_is_told_as_java_tells_it() -> None:
    record = trace.published(
        Published(
            Message("t", b"12345", tags="T", keys=["a", "b"]),
            msg_id="ID",
            group="g",
            region="DefaultRegion",
            store_host="10.0.0.1:10911",
        ),
        at_ms=1,
        cost_ms=7,
        kind=TraceMessageType.NORMAL,
        offset_msg_id="OFFSET",
        success=True,
    )
    expected = [
        "Pub",
        "1",
        "DefaultRegion",
        "g",
        "t",
        "ID",
        "T",
        "a b",
        "10.0.0.1:10911",
        "5",
        "7",
        "0",
        "OFFSET",
        "true",
    ]
    assert record.text() == "\x01".join(expected) + "\x02"
    assert record.keys == ("ID", "a", "b")


def test_consumptions_are_told_in_two_records() -> None:
    what = Consumed(group="g", request_id="Q", msg_id="ID", keys=["k"])
    before = trace.consumption_begins(what, at_ms=1, region="R", retry_times=2)
    after = trace.consumption_ended(what, at_ms=9, cost_ms=5, success=False, context_code=2)
    assert before.text() == "SubBefore\x011\x01R\x01g\x01Q\x01ID\x012\x01k\x02"
    assert after.text() == "SubAfter\x01Q\x01ID\x015\x01false\x01k\x012\x019\x01g\x02"


def test_transactions_and_recalls_are_told() -> None:
    ended = trace.transaction_ended(
        Published(Message("t", b"x", tags="T"), msg_id="ID", group="g", region="R", store_host="h:1"),
        at_ms=1,
        transaction_id="TX",
        state="COMMIT_MESSAGE",
        from_check=True,
    )
    assert (
        ended.text()
        == "EndTransaction\x011\x01R\x01g\x01t\x01ID\x01T\x01\x01h:1\x012\x01TX\x01COMMIT_MESSAGE\x01true\x02"
    )
    recalled = trace.recalled(at_ms=1, region="R", group="g", topic="t", msg_id="ID", success=True)
    assert recalled.text() == "Recall\x011\x01R\x01g\x01t\x01ID\x01true\x02"


def test_separators_in_a_field_cannot_break_the_form() -> None:
    assert TraceRecord(("a\x01b", "c\x02d"), ()).text() == "ab\x01cd\x02"


def test_records_are_cut_into_messages_by_number_and_size() -> None:
    records = [TraceRecord(("Pub", str(number)), (f"id{number}",)) for number in range(45)]
    messages = trace_messages("traces", records)
    assert [len(message.body.decode().split("\x02")) - 1 for message in messages] == [20, 20, 5]
    assert messages[0].keys == tuple(f"id{number}" for number in range(20))
    large = [TraceRecord(("x" * 70_000,), (f"k{number}",)) for number in range(3)]
    assert len(trace_messages("traces", large)) == 3
    assert trace_messages("traces", []) == []
