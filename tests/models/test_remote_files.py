"""Files of strangers: what is fetched, what is refused, and what an error says."""

from __future__ import annotations

import asyncio
import base64
import gzip
import logging
import traceback
from ipaddress import ip_address

import pytest

from tenuto.core.abort import AbortController
from tenuto.core.errors import ModelError
from tenuto.models.addresses import is_public
from tenuto.models.downloads import Downloads
from tenuto.models.remote_files import RemoteFiles
from tenuto.models.transport import AiohttpTransport
from tests.models.host import PNG, answer, hosting, moved


class Names:
    """A resolver: names to addresses, with what it was asked; a list of lists answers in turn."""

    def __init__(self, **known):
        self.known = {name.replace("_", "."): found for name, found in known.items()}
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append(host)
        if host not in self.known:
            raise OSError("no such host")
        found = self.known[host]
        return found.pop(0) if isinstance(found[0], list) else found


def files(*allowed, resolver=None, **limits):
    limits = Downloads(allow_hosts=allowed, **limits)
    return RemoteFiles(limits) if resolver is None else RemoteFiles(limits, resolver=resolver)


async def refused(url, fetcher=None, wanted="image/*"):
    with pytest.raises(ModelError) as caught:
        await (fetcher or files()).fetch(url, wanted)
    assert caught.value.id == "DOWNLOAD_ASSETS_FAILED"
    assert not caught.value.retryable
    return caught.value


async def test_a_file_arrives_with_its_type():
    async with hosting({"/a?x=1": answer(PNG, content_type="application/octet-stream")}) as host:
        found = await files("127.0.0.1").fetch(host.url("/a?x=1"), "image/*")
    assert (found.media_type, base64.b64decode(found.data)) == ("image/png", PNG)
    head = host.asked[0].lower()
    assert "authorization" not in head
    assert "cookie" not in head


TYPES = {
    "the bytes win": (PNG, {"content_type": "image/jpeg"}, "image/webp", "image/png"),
    "then the message": (b"plain", {"content_type": "text/html"}, "text/plain", "text/plain"),
    "then the header": (b"plain", {"content_type": "text/csv; charset=utf-8"}, "*/*", "text/csv"),
    "then the ending": (b"plain", {}, "image/*", "image/png"),
}


@pytest.mark.parametrize(("body", "headers", "wanted", "found"), TYPES.values(), ids=TYPES)
async def test_the_media_type(body, headers, wanted, found):
    async with hosting({"/a.png": answer(body, **headers)}) as host:
        assert (await files("127.0.0.1").fetch(host.url(), wanted)).media_type == found


async def test_a_web_page_is_no_image():
    async with hosting({"/a.png": answer(b"<html>", content_type="text/html")}) as host:
        error = await refused(host.url(), files("127.0.0.1"))
    assert "is no image: the host sent text/html" in str(error)


PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "::", "::1", "fe80::1", "fe80::1%1", "fc00::1",
    "fd12::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::1",
    "64:ff9b::7f00:1", "64:ff9b:1::1", "2001:db8::1", "2001:0:7f00:1::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_j03_an_address_that_is_not_public(address):
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address(address):
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "localhost",
        "127.0.0.1.",
    ],
)
async def test_j03_no_spelling_of_this_computer_is_asked(host):
    async with hosting({"/a.png": answer(PNG)}) as canary:
        error = await refused(f"http://{host}:{canary.port}/a.png")
    assert canary.asked == []
    assert "is not a public address" in str(error) or "no such host" in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://x.org/a",
        "gopher://x.org/",
        "http:///a",
        "http://u:p@8.8.8.8/",
        "http://x.org:99999/",
        "http://[::1/",
    ],
)
async def test_j03_no_other_scheme_no_user_no_odd_port(url):
    await refused(url, files(resolver=Names()))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest", "http://[::1]:{port}/b", "//127.1:{port}/b", "file:///etc/passwd"]
)
async def test_j03_each_hop_is_checked(status, target):
    names = Names(public_example=["127.0.0.1"], **{"127_1": ["127.0.0.1"]})
    async with hosting({"/b": answer(PNG)}) as canary:
        async with hosting({"/a.png": moved(target.format(port=canary.port), status)}) as host:
            error = await refused(host.url(host="public.example"), files("public.example", resolver=names))
        assert canary.asked == []
    assert host.paths == ["/a.png"]
    assert "169.254" not in str(error) or "169.254.169.254 is not a public" in str(error)


async def test_j03_a_name_with_one_private_address_is_refused_whole():
    names = Names(mixed_example=["93.184.216.34", "10.0.0.1"])
    await refused("http://mixed.example/", files(resolver=names))


async def test_j03_the_checked_address_is_the_one_that_is_asked():
    """A name that changes between check and connection: it is resolved once for each hop."""
    names = Names(public_example=[["127.0.0.1"], ["10.0.0.1"]])
    async with hosting({"/a.png": answer(PNG)}) as host:
        await files("public.example", resolver=names).fetch(host.url(host="public.example"), "image/*")
    assert names.asked == ["public.example"]
    assert f"host: public.example:{host.port}\r\n" in host.asked[0].lower()


async def test_j03_a_name_that_turns_private_is_refused_at_the_next_hop():
    names = Names(public_example=[["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"]])
    async with hosting({"/a.png": moved("/b.png")}) as host:
        allowed = files(f"public.example:{host.port}", resolver=names)
        host.pages["/b.png"] = moved("http://public.example:1/c.png")
        await refused(host.url(host="public.example"), allowed)
    assert host.paths == ["/a.png", "/b.png"]


async def test_a_redirect_is_followed():
    async with hosting({"/a.png": moved("b.png"), "/b.png": answer(PNG)}) as host:
        assert (await files("127.0.0.1").fetch(host.url(), "image/*")).media_type == "image/png"


async def test_a_circle_of_redirects_ends():
    async with hosting({"/a.png": moved("/a.png")}) as host:
        assert "redirects more than 5 times" in str(await refused(host.url(), files("127.0.0.1")))
    assert len(host.asked) == 6


async def test_j03_no_body_is_too_large():
    huge = answer(PNG, content_length=10_000_000_000)
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3_000_000
    async with hosting({"/said": huge, "/shown": endless}) as host:
        for path in ("/said", "/shown"):
            error = await refused(host.url(path), files("127.0.0.1", max_bytes=1_000_000))
            assert "is larger than 1,000,000 bytes" in str(error)


async def test_j03_no_body_unfolds():
    bomb = gzip.compress(b"\0" * 5_000_000)
    async with hosting({"/a.png": answer(bomb, content_encoding="gzip", content_type="image/png")}) as host:
        assert "is sent compressed" in str(await refused(host.url(), files("127.0.0.1")))


async def test_a_host_that_says_nothing_is_given_up():
    async with hosting({"/a.png": None}) as host:
        error = await refused(host.url(), files("127.0.0.1", timeout=0.05))
        await asyncio.wait_for(host.closed.wait(), 5)
    assert "cannot be fetched: no connection" in str(error) or "did not arrive within 0.05 s" in str(error)


async def test_an_abort_drops_the_connection():
    controller = AbortController()
    async with hosting({"/a.png": None}) as host:
        task = asyncio.create_task(files("127.0.0.1").fetch(host.url(), "image/*", controller.signal))
        await asyncio.wait_for(host.reached.wait(), 5)
        controller.abort()
        with pytest.raises(ModelError) as caught:
            await task
        await asyncio.wait_for(host.closed.wait(), 5)
    assert caught.value.id == "MODEL_CALL_ABORTED"


async def test_a_failure_that_may_pass_is_tried_again():
    cut = answer(PNG, content_length=999)
    async with hosting({"/a.png": [answer(status=503), cut, answer(PNG)]}) as host:
        assert (await files("127.0.0.1").fetch(host.url(), "image/*")).media_type == "image/png"
    async with hosting({"/a.png": answer(status=503)}) as host:
        await refused(host.url(), files("127.0.0.1"))
    assert len(host.asked) == 3


async def test_one_that_will_not_is_not():
    async with hosting({"/a.png": answer(status=404)}) as host:
        assert "the host answered 404" in str(await refused(host.url(), files("127.0.0.1")))
    assert len(host.asked) == 1


async def test_the_next_address_of_a_name_is_tried():
    names = Names(public_example=["::1", "127.0.0.1"])  # nobody listens at the first
    async with hosting({"/a.png": answer(PNG)}) as host:
        await files("public.example", resolver=names).fetch(host.url(host="public.example"), "image/*")
    assert host.paths == ["/a.png"]


async def test_no_proxy_is_asked(monkeypatch):
    async with hosting({}) as proxy, hosting({"/a.png": answer(PNG)}) as host:
        monkeypatch.setenv("http_proxy", proxy.url(""))
        names = Names(public_example=["127.0.0.1"])
        await files("public.example", resolver=names).fetch(host.url(host="public.example"), "image/*")
        assert proxy.asked == []


async def test_j05_no_error_shows_what_may_be_a_secret(caplog):
    secret = "sk-CANARY-1"
    pages = {f"/{secret}?key={secret}": [answer(status=403), answer(status=503), moved(f"http://10.0.0.1/?k={secret}")]}
    async with hosting(pages) as host:
        urls = [host.url(f"/{secret}?key={secret}")] * 3
        with caplog.at_level(logging.DEBUG):
            errors = [await refused(url, files("127.0.0.1")) for url in urls[:2]]
        errors.append(await refused(f"http://u:{secret}@127.0.0.1/"))
        errors.append(await refused(f"http://127.0.0.1:1/?key={secret}", files("127.0.0.1")))
    shown = [*("".join(traceback.format_exception(error)) for error in errors), *map(repr, errors), caplog.text]
    shown += [str(error.details) for error in errors]
    assert not [text for text in shown if secret in text]


async def test_a_plain_get_follows_no_redirect():
    from tenuto.models.transport import HttpRequest

    async with hosting({"/a.png": moved("/b")}) as host:
        response = await AiohttpTransport().open(HttpRequest(url=host.url(), body=b"", provider="x", method="GET"))
        response.close()
    assert (response.status, response.headers["location"], host.paths) == (302, "/b", ["/a.png"])
