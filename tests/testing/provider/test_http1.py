"""The request reader: the same requests whatever the network reads are."""

import pytest

from tenuto.testing.provider.http1 import BadHTTP, RequestReader, frame, head

FIXED = b'POST /v1/x?api=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n{""}'
CHUNKED = b"POST /v1/y HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;ext=1\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
BARE = b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n"
OLD = b"GET /v1/models HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_split_into_reads_does_not_matter(size: int) -> None:
    wire = FIXED + CHUNKED + BARE + OLD
    reader = RequestReader(3)
    found = [request for at in range(0, len(wire), size) for request in reader.feed(wire[at : at + size])]
    assert [(each.method, each.path, each.raw) for each in found] == [
        ("POST", "/v1/x", b'{""}'),
        ("POST", "/v1/y", b"abcde"),
        ("GET", "/v1/models", b""),
        ("GET", "/v1/models", b""),
    ]
    assert [each.keep_alive for each in found] == [True, True, False, False]
    assert found[0].headers == {"host": "a", "content-length": "4"}
    assert found[0].connection == 3


@pytest.mark.parametrize(
    "wire",
    [
        b"nonsense\r\n\r\n",
        b"GET / SPDY/1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http_is_an_error(wire: bytes) -> None:
    with pytest.raises(BadHTTP):
        RequestReader(0).feed(wire)


def test_a_client_that_waits_is_invited_once() -> None:
    reader = RequestReader(0)
    assert reader.feed(b"POST / HTTP/1.1\r\ncontent-length: 1\r\nExpect: 100-continue\r\n\r\n") == []
    assert reader.wants_continue()
    assert not reader.wants_continue()
    assert len(reader.feed(b"x")) == 1
    assert not reader.wants_continue()


def test_framing() -> None:
    assert frame(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
    assert head(200, [("a", "b")], length=3) == b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 3\r\n\r\n"
    assert head(529, [], length=None) == b"HTTP/1.1 529 Unknown\r\ntransfer-encoding: chunked\r\n\r\n"
