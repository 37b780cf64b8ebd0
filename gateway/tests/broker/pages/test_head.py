"""Heads of HTTP requests."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.pages.head import MAX_HEADER_LINES, PageRefused, PageRequest, parse_head


@pytest.mark.parametrize(
    ("head", "request_"),
    [
        (b"GET /metrics HTTP/1.1", PageRequest("/metrics", "HTTP/1.1", is_head=False, is_last=False)),
        (b"GET /metrics?name=a HTTP/1.0", PageRequest("/metrics", "HTTP/1.0", is_head=False, is_last=True)),
        (b"HEAD http://h:1/a/b?c HTTP/1.1\r\nHost: h", PageRequest("/a/b", "HTTP/1.1", is_head=True, is_last=False)),
        (b"GET http://h HTTP/1.1", PageRequest("/", "HTTP/1.1", is_head=False, is_last=False)),
        (b"GET / HTTP/1.1\r\nConnection: x, Close", PageRequest("/", "HTTP/1.1", is_head=False, is_last=True)),
        (b"GET / HTTP/1.0\r\nconnection:keep-alive", PageRequest("/", "HTTP/1.0", is_head=False, is_last=False)),
        (b"GET / HTTP/1.1\r\nContent-Length: 0", PageRequest("/", "HTTP/1.1", is_head=False, is_last=False)),
    ],
)
def test_what_is_asked_for(head: bytes, request_: PageRequest) -> None:
    assert parse_head(head) == request_


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"", HTTPStatus.BAD_REQUEST),
        (b"GET /", HTTPStatus.BAD_REQUEST),
        (b"GET  HTTP/1.1", HTTPStatus.BAD_REQUEST),
        (b"GET / x HTTP/1.1", HTTPStatus.BAD_REQUEST),
        (b"PRI * HTTP/2.0", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nnothing", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\na: b\r\n folded: c", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nContent-Length : 5", HTTPStatus.BAD_REQUEST),
        (b"POST / HTTP/1.1\r\nContent-Length: 5", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"DELETE / HTTP/1.1", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"get / HTTP/1.1", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"GET / HTTP/1.1\r\ncontent-length: 99999999999", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 1", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"GET / HTTP/1.1" + b"\r\na: b" * (MAX_HEADER_LINES + 1), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_what_is_refused(head: bytes, status: HTTPStatus) -> None:
    with pytest.raises(PageRefused) as refused:
        parse_head(head)
    assert refused.value.status is status


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"GET", b" ", b"/", b"HTTP/1.1", b"\r\n", b":", b"a", b"\xff", b"\x00", b"\n"])))
def test_any_bytes_are_read_or_refused(parts: list[bytes]) -> None:
    with suppress(PageRefused):
        parse_head(b"".join(parts))
