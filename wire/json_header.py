"""The JSON header of a frame as msgspec reads and writes it; ``frame`` interprets the header.

The module is separate because it is never compiled: msgspec makes classes of these declarations itself.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from wire.errors import HeaderError

# What an absent opaque is read as. The Java decoder takes its own next number, which also matches nothing.
NO_OPAQUE: Final = -1
NO_FIELDS: Final = msgspec.Raw(b"{}")
WHOLE_START_BYTES: Final = 12
"""The number of bytes that identify a header's request, such as ``{"code":310,`` (``quick.whole``)."""

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class JsonHeader(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The header in the form of stock clients; any other form is read in a slower way."""

    code: Int32 = 0
    extFields: msgspec.Raw = NO_FIELDS  # noqa: N815
    flag: Int32 = 0
    language: str = "JAVA"
    opaque: Int32 = NO_OPAQUE
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None  # noqa: N815
    version: Int32 = 0


class FieldsOnly(msgspec.Struct, gc=False):
    """The fields of a header that was checked when it was read, perhaps more leniently than ``JsonHeader`` checks."""

    extFields: msgspec.Raw = NO_FIELDS  # noqa: N815


class JsonHeaderOut(msgspec.Struct, omit_defaults=True, gc=False, kw_only=True):
    """The header as fastjson writes it: members in alphabetical order, null members left out."""

    code: int
    extFields: dict[str, str] | None = None  # noqa: N815
    flag: int
    language: str
    opaque: int
    remark: str | None = None
    serializeTypeCurrentRPC: str  # noqa: N815
    version: int


decode_json_header: Final = msgspec.json.Decoder(JsonHeader).decode
decode_fields_only: Final = msgspec.json.Decoder(FieldsOnly).decode
encode_json_header: Final = msgspec.json.Encoder().encode


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
