"""A frame: the bytes of one command, with its header as JSON or in the binary ("ROCKETMQ") form.

    length:4 | serialize type:1, header length:3 | header | body

The length counts the bytes after the length field. All integers are big-endian, all text is UTF-8. ``connection`` finds
the start and end of frames in a stream; ``headers`` has the fields of a header.

Apache RocketMQ closes the connection at a frame that it cannot read, so every error here is final for its connection.
Unusual but harmless headers are read as fastjson reads them for the Java broker (``_parse_odd_json_header``).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import astuple

from wire.codes import LanguageCode, SerializeType
from wire.command import RemotingCommand
from wire.errors import FrameError, HeaderError, LocalError
from wire.fixed_layout import FixedLayout, Int8ub, Int16sb, Int32sb, Int32ub
from wire.json_header import (
    NO_FIELDS,
    NO_OPAQUE,
    WHOLE_START_BYTES,
    Int32,
    JsonHeaderOut,
    decode_json_header,
    encode_json_header,
    json_text,
    parse_ext_fields,
    parse_members,
)

# ``NettyDecoder.FRAME_MAX_LENGTH`` of every stock client, length field included: never change.
MAX_FRAME_BYTES: Final = 16_777_216
MAX_HEADER_BYTES: Final = 0xFF_FFFF
LARGE_HEADER_BYTES: Final = 1_048_576
"""The size in bytes above which a header's fields are counted before the header is read."""
MAX_LARGE_HEADER_FIELDS: Final = 131_072
"""The most fields of a large header, counted as colons in a JSON header: 0.14 s of reading.

Declared headers have up to 30 fields.
"""
_FIRST_UNKNOWN_MARK: Final = (SerializeType.ROCKETMQ + 1) << 24

FRAME_HEAD: Final = FixedLayout("frame head", frame_bytes=Int32ub, header_mark=Int32ub)
"""The number of bytes that follow; the serialize type in the high 8 bits, and the header length in the low 24."""
HEADER_MARK: Final = FRAME_HEAD.packer("header_mark")

BINARY_HEAD: Final = FixedLayout(
    "binary header", code=Int16sb, language=Int8ub, version=Int16sb, opaque=Int32sb, flag=Int32sb, remark_bytes=Int32sb
)
_KEY_LENGTH: Final = FixedLayout("ext field key", key_bytes=Int16sb).packer("key_bytes")
_TEXT_LENGTH: Final = FixedLayout("ext field value", value_bytes=Int32sb).packer("value_bytes")

_as_tuple: Final = astuple
_LANGUAGES: Final[dict[str, int]] = {code.name: int(code) for code in LanguageCode}
_LANGUAGE_NAMES: Final = tuple(code.name for code in LanguageCode)

Readable: TypeAlias = bytes | memoryview


class WholeReader:
    """A reader of a JSON header and its fields in one step.

    :param decode: returns a struct with the members of a header in alphabetical order; the fields are one member.
    """

    def __init__(self, decode: Callable[[bytes], Any]) -> None:
        self._decode = decode

    def read(self, header: bytes, body: bytes) -> RemotingCommand | None:
        """Return the command; None if the header has to be read step by step."""
        try:
            # All at once is quicker than one by one.
            fields, code, flag, name, opaque, remark, _, version = _as_tuple(self._decode(header))
            language = _LANGUAGES[name]
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, RecursionError):
            return None
        return RemotingCommand(
            code,
            opaque=opaque,
            flag=flag,
            language=language,
            version=version,
            remark=remark,
            body=body,
            header=fields,
            header_json=header,
        )


WholeHeaders: TypeAlias = "dict[bytes, WholeReader]"
"""The readers of JSON headers by the first bytes of the header (``quick.whole``)."""


def parse_frame(buffer: Readable, start: int, end: int) -> RemotingCommand:
    """Read the frame whose bytes after the length field are ``buffer[start:end]``.

    :raises FrameError: the serialize type or the header length is impossible.
    :raises HeaderError: the header cannot be read.
    """
    if end - start < 4:
        raise FrameError(f"a frame of {end - start} bytes has no room for its header length")
    frame = bytes(buffer[start:end])
    return parse_marked_frame(frame, HEADER_MARK.unpack_from(frame)[0], 4, len(frame), {})


def parse_marked_frame(buffer: bytes, mark: int, start: int, end: int, whole: WholeHeaders) -> RemotingCommand:
    """Read the header and body ``buffer[start:end]`` of a frame whose header mark was read before.

    :param whole: readers of headers in one step.
    :raises FrameError: the serialize type or the header length is impossible.
    :raises HeaderError: the header cannot be read.
    """
    body_start = start + (mark & MAX_HEADER_BYTES)
    if body_start > end or mark >= _FIRST_UNKNOWN_MARK:
        check_header_mark(mark, 4 + end - start)
    header = buffer[start:body_start]
    body = buffer[body_start:end]
    if body_start - start > LARGE_HEADER_BYTES:
        _check_large_header(header, mark)
    reader = whole.get(header[:WHOLE_START_BYTES])
    if reader is not None:
        command = reader.read(header, body)
        if command is not None:
            return command
    return _parse_binary_header(header, body) if mark > MAX_HEADER_BYTES else _parse_json_header(header, body)


def check_header_mark(mark: int, frame_bytes: int) -> None:
    """Refuse an undefined serialize type, or a header longer than its frame.

    :raises FrameError: the mark has such a fault, a reason to close the connection.
    """
    if mark >= _FIRST_UNKNOWN_MARK:
        raise FrameError(f"serialize type {mark >> 24} is unknown: 0 (JSON) and 1 (ROCKETMQ) are defined")
    if (mark & MAX_HEADER_BYTES) + 4 > frame_bytes:
        raise FrameError(f"header of {mark & MAX_HEADER_BYTES} bytes is longer than its frame of {frame_bytes} bytes")


def _check_large_header(header: bytes, mark: int) -> None:
    """Refuse a JSON header with so many fields that other peers would wait.

    Fields of binary headers are counted later.
    """
    if mark <= MAX_HEADER_BYTES and header.count(b":") > MAX_LARGE_HEADER_FIELDS:
        raise HeaderError(f"JSON header of {len(header)} bytes has more than {MAX_LARGE_HEADER_FIELDS} fields")


def build_frame(command: RemotingCommand) -> bytes:
    """Return the whole frame of a command.

    :raises LocalError: the command does not fit into a frame or into the chosen header form.
    """
    body = command.body
    return build_frame_head(command, len(body)) + body


def build_frame_head(command: RemotingCommand, body_bytes: int) -> bytes:
    """Return everything before the body, for a body of ``body_bytes`` bytes that is sent separately.

    :raises LocalError: the command does not fit into a frame or into the chosen header form.
    """
    try:
        header = _build_binary_header(command) if command.serialize_type else _build_json_header(command)
    except (struct.error, UnicodeEncodeError) as error:
        raise LocalError(f"command with code {command.code} cannot be written: {error}") from error
    header_bytes = len(header)
    frame_bytes = 4 + header_bytes + body_bytes
    if header_bytes > MAX_HEADER_BYTES or frame_bytes + 4 > MAX_FRAME_BYTES:
        raise LocalError(f"frame of {frame_bytes + 4} bytes (header {header_bytes}) exceeds {MAX_FRAME_BYTES} bytes")
    return FRAME_HEAD.pack(frame_bytes, command.serialize_type << 24 | header_bytes) + header


# --- JSON header --------------------------------------------------------------------------------------------


_OBJECT_START: Final = ord("{")


def _parse_json_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        read = decode_json_header(header)
        language = _LANGUAGES[read.language]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, RecursionError):
        return _parse_odd_json_header(header, body)
    ext_json = bytes(read.extFields)
    if ext_json[0] != _OBJECT_START:
        return _parse_odd_json_header(header, body)
    return RemotingCommand(
        read.code,
        opaque=read.opaque,
        flag=read.flag,
        language=language,
        version=read.version,
        remark=read.remark,
        ext_json=ext_json,
        body=body,
    )


def _parse_odd_json_header(header: bytes, body: bytes) -> RemotingCommand:
    """Read a JSON header that is not in Java's form, as leniently as fastjson 1.2 does.

    Unknown members are ignored. Names match without regard to case and ``_``. Numbers may be quoted, and a language may
    be an ordinal. Ext values that are numbers or booleans become text, and objects and arrays become their JSON text.
    Null ext values are dropped. Bytes that are not UTF-8 become U+FFFD. fastjson's single quotes, comments and bare
    keys are not read, because no client writes headers with them.
    """
    try:
        members = parse_members(header)
        found = {name.replace("_", "").lower(): raw for name, raw in members.items()}
        return RemotingCommand(
            _member(found, "code", Int32, 0),
            opaque=_member(found, "opaque", Int32, NO_OPAQUE),
            flag=_member(found, "flag", Int32, 0),
            language=_language(_member(found, "language", int | str, "JAVA")),
            version=_member(found, "version", Int32, 0),
            remark=json_text(found["remark"]) if "remark" in found else None,
            ext_fields=parse_ext_fields(bytes(found.get("extfields", NO_FIELDS))),
            body=body,
        )
    except msgspec.MsgspecError as error:
        raise HeaderError(f"JSON header cannot be read: {error}") from error
    except RecursionError as error:
        raise HeaderError("JSON header is nested too deeply") from error


def _member(found: Mapping[str, msgspec.Raw], name: str, kind: object, default: int | str) -> Any:
    raw = found.get(name)
    if raw is None or bytes(raw) == b"null":
        return default
    return msgspec.json.decode(raw, type=kind, strict=False)


def _language(value: int | str) -> int:
    if isinstance(value, str):
        return _LANGUAGES.get(value, LanguageCode.OTHER)
    return value if 0 <= value < len(_LANGUAGE_NAMES) else LanguageCode.OTHER


def _build_json_header(command: RemotingCommand) -> bytes:
    language = command.language
    return encode_json_header(
        JsonHeaderOut(
            code=command.code,
            extFields=command.ext_fields or None,
            flag=command.flag,
            language=_LANGUAGE_NAMES[language] if 0 <= language < len(_LANGUAGE_NAMES) else "OTHER",
            opaque=command.opaque,
            remark=command.remark,
            serializeTypeCurrentRPC="JSON",
            version=command.version,
        )
    )


# --- binary header ------------------------------------------------------------------------------------------


def _parse_binary_header(header: bytes, body: bytes) -> RemotingCommand:
    end = len(header)
    if end < BINARY_HEAD.size + 4:
        raise HeaderError(f"binary header of {end} bytes is shorter than its fixed {BINARY_HEAD.size + 4}")
    code, language, version, opaque, flag, remark_bytes = BINARY_HEAD.unpack_from(header)
    remark_end = BINARY_HEAD.size + remark_bytes
    if remark_bytes < 0 or remark_end + 4 > end:
        raise HeaderError(f"remark of {remark_bytes} bytes does not fit into a binary header of {end}")
    ext_bytes: int = _TEXT_LENGTH.unpack_from(header, remark_end)[0]
    ext_start = remark_end + 4
    if ext_bytes < 0 or ext_start + ext_bytes > end:
        raise HeaderError(f"ext fields of {ext_bytes} bytes do not fit into a binary header of {end}")
    return RemotingCommand(
        code,
        opaque=opaque,
        flag=flag,
        language=language,
        version=version,
        remark=header[BINARY_HEAD.size : remark_end].decode("utf-8", "replace") or None,
        ext_fields=_parse_ext_block(header, ext_start, ext_start + ext_bytes),
        body=body,
        serialize_type=SerializeType.ROCKETMQ,
    )


def _parse_ext_block(header: bytes, start: int, end: int) -> dict[str, str]:
    """Return the entries of the block.

    An entry with an empty key or value counts as null and is left out, as in Java.
    """
    fields: dict[str, str] = {}
    offset = start
    count = 0
    try:
        while offset < end:
            count += 1
            if count > MAX_LARGE_HEADER_FIELDS:
                raise HeaderError(f"ext block of {end - start} bytes has more than {MAX_LARGE_HEADER_FIELDS} fields")
            key_start = offset + 2
            key_end = key_start + _KEY_LENGTH.unpack_from(header, offset)[0]
            value_start = key_end + 4
            offset = value_start + _TEXT_LENGTH.unpack_from(header, key_end)[0]
            if key_end < key_start or offset < value_start or offset > end:
                raise HeaderError(f"ext field at {key_start - 2} runs outside its block of {end - start} bytes")
            key = header[key_start:key_end].decode("utf-8", "replace")
            value = header[value_start:offset].decode("utf-8", "replace")
            if key and value:
                fields[key] = value
    except struct.error as error:
        raise HeaderError(f"ext block of {end - start} bytes ends inside an entry") from error
    return fields


def _build_binary_header(command: RemotingCommand) -> bytes:
    remark = (command.remark or "").encode()
    head = BINARY_HEAD.pack(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
    entries: list[bytes] = []
    for key, value in command.ext_fields.items():
        key_text = key.encode()
        value_text = value.encode()
        entries += (_KEY_LENGTH.pack(len(key_text)), key_text, _TEXT_LENGTH.pack(len(value_text)), value_text)
    block = b"".join(entries)
    return b"".join((head, remark, _TEXT_LENGTH.pack(len(block)), block))
