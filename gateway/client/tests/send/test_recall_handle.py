import base64

import pytest

from gateway.client.errors import ConfigurationError
from gateway.client.send.producer import parse_recall_handle
from wire.message.recall_handle import RecallHandle


def handle(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("pad", [True, False])
def test_a_handle_names_its_broker(pad: bool) -> None:
    text = handle("v1 orders broker-a 1700000000000 ID")
    assert parse_recall_handle(text if pad else text.rstrip("=")) == RecallHandle(
        "orders", "broker-a", "1700000000000", "ID"
    )


@pytest.mark.parametrize("text", ["", "*", handle("v2 a b 1 c"), handle("v1 a b c"), handle("v1 a b x c"), "\xff"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="recall_handle"):
        parse_recall_handle(text)
