"""The JSON header of a frame as msgspec reads and writes it; ``frame`` interprets the header.

The module is separate because it is never compiled: msgspec makes classes of these declarations itself.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

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
