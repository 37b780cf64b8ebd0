"""Ext fields in JSON: the ``extFields`` object of a command's header, read when somebody asks for its fields.

Most readers know the class of a header and read the header directly from this text (``headers.declare.read_header``).
The mapping is made for all other readers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from wire.errors import HeaderError

_decode: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def parse_ext_fields(text: bytes) -> dict[str, str]:
    """Return the fields by wire name, from the UTF-8 text of one well-formed JSON value.

    Text that stock clients never write is read as fastjson 1.2 reads it for the Java broker. Numbers and booleans
    become text, and objects and arrays become their JSON text. Null values are dropped. Bytes that are not UTF-8 become
    U+FFFD.

    :raises HeaderError: the value is not an object.
    """
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _parse_odd(text)


def _parse_odd(text: bytes) -> dict[str, str]:
    if text == b"null":
        return {}
    try:
        members = parse_members(text)
        texts = ((key, json_text(value)) for key, value in members.items())
        return {key: value for key, value in texts if value is not None}
    except msgspec.MsgspecError as error:
        raise HeaderError(f"JSON header cannot be read: extFields: {error}") from error


def parse_members(text: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object; bytes that are not UTF-8 become U+FFFD.

    :raises msgspec.MsgspecError: the text is not JSON, or not an object.
    """
    return _decode_members(text.decode("utf-8", "replace").encode())


def json_text(raw: msgspec.Raw) -> str | None:
    """Return the content of a string, None for null, and the JSON text of any other value."""
    content = bytes(raw)
    if content == b"null":
        return None
    return msgspec.json.decode(content, type=str) if content[:1] == b'"' else content.decode()
