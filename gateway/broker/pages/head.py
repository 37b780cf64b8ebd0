"""Heads of HTTP requests: what a page needs to know of a request, and which requests are refused.

Pure. A request with a body is refused because of its header, so a body is never read.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from wire.errors import RemoteError

MAX_HEAD_BYTES = 8_192
"""The largest number of bytes in a request line with its header lines."""
MAX_HEADER_LINES = 64
"""The largest number of header lines in one request."""
HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"
_PLAIN_SCHEME = b"http://"
_VERSIONS = frozenset({b"HTTP/1.0", b"HTTP/1.1"})


class PageRefused(RemoteError):  # noqa: N818 (an answer, not a failure of ours)
    """A refusal: the request gets no page, and its connection ends.

    :param sentence: the reason, for the person who asked.
    """

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page; ``version`` is the HTTP version of the request.

    ``is_last`` is True if the connection ends after the answer.
    """

    path: str
    version: str
    is_head: bool
    is_last: bool


def parse_head(head: bytes) -> PageRequest:
    """Return the request that a request line and its header lines ask for.

    :param head: the head without the empty line at its end.
    :raises PageRefused: the request is malformed, has a body, or is neither GET nor HEAD.
    """
    request_line, *lines = head.split(LINE_END)
    words = request_line.split(b" ")
    if len(words) != 3 or words[2] not in _VERSIONS or not words[1]:
        raise PageRefused(HTTPStatus.BAD_REQUEST, "the request line is not METHOD PATH HTTP/1.1")
    method, target, version = words
    if method not in (b"GET", b"HEAD"):
        raise PageRefused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered here")
    stays = _stays(lines, version)
    return PageRequest(_path(target), version.decode(), method == b"HEAD", not stays)


def _stays(lines: list[bytes], version: bytes) -> bool:
    """Return whether the connection stays open for a next request.

    :raises PageRefused: a header line is malformed, there are too many lines, or the request has a body.
    """
    if len(lines) > MAX_HEADER_LINES:
        what = f"the request has {len(lines)} header lines, {MAX_HEADER_LINES} at most are read"
        raise PageRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what)
    stays = version == b"HTTP/1.1"
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name.split() != [name]:
            raise PageRefused(HTTPStatus.BAD_REQUEST, "a header line is not NAME: VALUE")
        name, value = name.lower(), value.strip().lower()
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            raise PageRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request here has no body")
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            stays = b"close" not in options and (stays or b"keep-alive" in options)
    return stays


def _path(target: bytes) -> str:
    """Return the path of a target without its query; the target may be a whole address."""
    if target.lower().startswith(_PLAIN_SCHEME):
        target = b"/" + target[len(_PLAIN_SCHEME) :].partition(b"/")[2]
    return target.partition(b"?")[0].decode("ascii", "replace")
