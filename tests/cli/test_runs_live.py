"""`watch` beside a run that goes on, and what Ctrl-C leaves."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tenuto import Tenuto
from tenuto.cli.runs.live import watch_run
from tenuto.cli.runs.places import Place
from tenuto.store import SQLiteStore


async def test_watch_follows_through_a_suspension(shop, capsys):
    place = Place(app="shop:app")
    async with shop.module().open_app(recovery="off") as app, watching() as watcher:
        clerk = app.get_agent("clerk")
        run = (await clerk.generate("pay 200")).run_id
        watch = asyncio.create_task(watch_run(watcher, run, place, offset=0, follow=True))
        await soon(lambda: "waits for approval" in said(capsys))
        assert not watch.done()
        await clerk.approve_tool_call_generate(run_id=run)
        assert await watch == 0
    assert said(capsys).endswith("You see: paid 200\n")


async def test_watch_shows_text_before_the_run_is_over(shop, capsys):
    (shop.folder / "hang").touch()
    async with shop.module().open_app(recovery="off") as app, watching() as watcher:
        stream = await app.get_agent("clerk").stream("speak")
        watch = asyncio.create_task(watch_run(watcher, stream.run_id, Place(app="shop:app"), offset=0, follow=False))
        await soon(lambda: "Half" in said(capsys))
        assert not watch.done()
        stream.abort()
        assert await watch == 1
    assert "aborted" in said(capsys)


def watching():
    """Another process's view of the store."""
    return Tenuto(agents={}, store=SQLiteStore("shop.db"), recovery="off")


_said = {}


def said(capsys):
    """All that was written so far in this test."""
    out, err = capsys.readouterr()
    _said[capsys] = _said.get(capsys, "") + err + out
    return _said[capsys]


async def soon(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is written sets no event
            await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
def test_ctrl_c_leaves_a_run_that_is_driven_here_where_it_stands(shop):
    import pexpect

    run = shop.abandon()
    (shop.folder / "hang").touch()
    command = pexpect.spawn(
        sys.executable,
        ["-m", "tenuto", "runs", "recover", run, "--app", "shop:app"],
        cwd=str(shop.folder),
        encoding="utf-8",
        timeout=60,
    )
    command.expect("Half")
    command.sendintr()
    command.expect(f"left where it stands; tenuto runs recover {run} --app shop:app")
    command.expect(pexpect.EOF)
    command.close()
    assert command.exitstatus == 130
    (shop.folder / "hang").unlink()
    assert shop("recover", run, "--app", "shop:app").stdout == "You see: speak\n"
