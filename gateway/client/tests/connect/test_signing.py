import base64
import hashlib
import hmac

from gateway.client.connect.signing import RequestSigner, signature
from wire.command import RemotingCommand


def test_values_are_signed_in_the_order_of_their_names() -> None:
    command = RemotingCommand(310, ext_fields={"b": "topic", "a": "group", "Z": "last?"}, body=b"body")
    RequestSigner("key", "secret").sign(command)
    # Upper case sorts before lower case: AccessKey, Z, a, b.
    expected = hmac.new(b"secret", b"key" + b"last?" + b"group" + b"topic" + b"body", hashlib.sha1).digest()
    assert command.ext_fields["Signature"] == base64.b64encode(expected).decode()
    assert command.ext_fields["AccessKey"] == "key"


def test_a_token_is_sent_and_signed() -> None:
    command = RemotingCommand(34)
    RequestSigner("key", "secret", "token").sign(command)
    expected = hmac.new(b"secret", b"key" + b"token", hashlib.sha1).digest()
    assert command.ext_fields["SecurityToken"] == "token"
    assert command.ext_fields["Signature"] == base64.b64encode(expected).decode()


def test_signing_again_gives_the_same() -> None:
    command = RemotingCommand(34, ext_fields={"a": "Zürich"})
    signer = RequestSigner("key", "secret")
    signer.sign(command)
    first = command.ext_fields["Signature"]
    signer.sign(command)
    assert command.ext_fields["Signature"] == first


def test_names_sort_by_utf16_units_as_in_java() -> None:
    # U+1F680 is D83D DE80 in UTF-16 and so before U+FF5E, though after it by code point.
    fields = {"\uff5e": "b", "\U0001f680": "a"}
    assert signature(b"s", fields, b"") == base64.b64encode(hmac.new(b"s", b"ab", hashlib.sha1).digest()).decode()
