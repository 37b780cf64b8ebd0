"""A remoting command: the one unit that travels between clients, brokers and name servers.

A command is the content of a parsed frame, and the input of a new frame. The class knows the two flag bits, and how an
answer relates to its request. Bytes are the business of ``frame``, and header classes the business of ``headers``. The
members are those of Apache RocketMQ's ``RemotingCommand``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from wire.codes import SERVER_VERSION
from wire.json_header import decode_fields_only, parse_ext_fields

# The flag bits of ``RemotingCommand``: never change.
RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2


@mypyc_attr(acyclic=True)
class RemotingCommand:
    """One request or response.

    A plain class with slots, not a frozen dataclass, because every sent message and every answer needs one.
    ``object.__setattr__`` in a frozen ``__init__`` costs three times as much.

    :param code: request or response code; 16 bits if the header is binary, otherwise 32 bits.
    :param opaque: a signed 32-bit number that the requester chooses, to match a response with its request.
    :param flag: bit 0 response, bit 1 one-way.
    :param language: ``LanguageCode`` of the sender.
    :param version: version number of the sender, ``MQVersion``.
    :param remark: text for people, mostly about an error.
    :param ext_fields: the header fields by wire name; the command keeps the mapping and makes no copy.
    :param ext_json: instead of ``ext_fields``, the JSON object from which the fields are read at their first use.
    :param header: instead of both, the header object, read at once with the command from ``header_json``.
    :param body: the bytes after the header.
    :param serialize_type: ``SerializeType`` of the header, as read or as to write.
    """

    __slots__ = (
        "_ext_fields",
        "body",
        "code",
        "ext_json",
        "flag",
        "header",
        "header_json",
        "language",
        "opaque",
        "remark",
        "serialize_type",
        "version",
    )

    def __init__(
        self,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        language: int = 0,
        version: int = SERVER_VERSION,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        ext_json: bytes | None = None,
        header: object = None,
        header_json: bytes | None = None,
        body: bytes = b"",
        serialize_type: int = 0,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.language = language
        self.version = version
        self.remark = remark
        self._ext_fields = ext_fields
        self.ext_json = ext_json
        self.header = header
        self.header_json = header_json
        self.body = body
        self.serialize_type = serialize_type

    @property
    def ext_fields(self) -> dict[str, str]:
        """The header fields by wire name."""
        fields = self._ext_fields
        if fields is None:
            text = self.fields_json()
            fields = self._ext_fields = {} if text is None else parse_ext_fields(text)
            # From now on the mapping counts, whatever is done to it.
            self.ext_json = self.header_json = self.header = None
        return fields

    def fields_json(self) -> bytes | None:
        """Return the JSON object from which the fields are read.

        The result is None if the mapping ``ext_fields`` counts instead.
        """
        return self.ext_json if self.header_json is None else bytes(decode_fields_only(self.header_json).extFields)

    @property
    def is_response(self) -> bool:
        """True if the command answers a request of the other side."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """True if the command is a request without an answer."""
        return self.flag & ONEWAY_FLAG != 0

    def response(
        self,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return an answer to this request, with its opaque and header form, the response flag and our version."""
        return RemotingCommand(
            code,
            opaque=self.opaque,
            flag=RESPONSE_FLAG,
            remark=remark,
            ext_fields=ext_fields,
            body=body,
            serialize_type=self.serialize_type,
        )

    @property
    def header_characters(self) -> int:
        """The approximate length of the header data that the command keeps, in characters."""
        raw = self.header_json or self.ext_json
        if raw is not None:
            return len(raw)
        return sum(map(len, self._ext_fields.values())) if self._ext_fields else 0

    def let_go(self) -> None:
        """Forget the fields, remark and body of a request that waits long for its answer.

        The request can still be answered.
        """
        self._ext_fields = self.ext_json = self.header_json = self.header = self.remark = None
        self.body = b""

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "one-way request" if self.is_oneway else "request"
        return (
            f"<RemotingCommand {kind} code={self.code} opaque={self.opaque} "
            f"fields={self.ext_fields!r} body={len(self.body)} bytes>"
        )
