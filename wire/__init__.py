"""The bytes of Apache RocketMQ's remoting protocol and disk files, read into typed values and written back.

Nothing here does I/O, reads a clock, draws random numbers or starts threads. Bytes come in as arguments and go out as
return values. All code for sockets, disks or time is in the package ``gateway``.

The names below are enough to speak the protocol over any transport: feed ``Connection``, look at ``RemotingCommand``,
read its fields with ``parse_header`` and its messages with ``parse_records``. Header classes are in ``wire.headers``,
JSON bodies in ``wire.bodies``, file formats in ``wire.disk``.

Names are loaded at their first use, so that users of the codes alone do not load a JSON reader.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wire.codes import SERVER_VERSION as SERVER_VERSION
    from wire.codes import LanguageCode as LanguageCode
    from wire.codes import RequestCode as RequestCode
    from wire.codes import ResponseCode as ResponseCode
    from wire.codes import SerializeType as SerializeType
    from wire.codes import request_code_name as request_code_name
    from wire.codes import response_code_name as response_code_name
    from wire.command import RemotingCommand as RemotingCommand
    from wire.connection import Connection as Connection
    from wire.errors import BodyError as BodyError
    from wire.errors import FieldError as FieldError
    from wire.errors import FrameError as FrameError
    from wire.errors import HeaderError as HeaderError
    from wire.errors import LayoutError as LayoutError
    from wire.errors import LocalError as LocalError
    from wire.errors import RecordError as RecordError
    from wire.errors import RemoteError as RemoteError
    from wire.errors import WireError as WireError
    from wire.frame import MAX_FRAME_BYTES as MAX_FRAME_BYTES
    from wire.frame import build_frame as build_frame
    from wire.frame import build_frame_head as build_frame_head
    from wire.frame import parse_frame as parse_frame
    from wire.headers.declare import Header as Header
    from wire.headers.declare import build_header as build_header
    from wire.headers.declare import parse_header as parse_header
    from wire.message.record import OutgoingMessage as OutgoingMessage
    from wire.message.record import StoredMessage as StoredMessage
    from wire.message.record import build_record as build_record
    from wire.message.record import parse_record as parse_record
    from wire.message.record import parse_records as parse_records

_NAMES: Final = {
    "codes": "SERVER_VERSION LanguageCode RequestCode ResponseCode SerializeType request_code_name response_code_name",
    "command": "RemotingCommand",
    "connection": "Connection",
    "errors": "BodyError FieldError FrameError HeaderError LayoutError LocalError RecordError RemoteError WireError",
    "frame": "MAX_FRAME_BYTES build_frame build_frame_head parse_frame",
    "headers.declare": "Header build_header parse_header",
    "message.record": "OutgoingMessage StoredMessage build_record parse_record parse_records",
}
"""The public names of each module below this package."""
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
