"""tenuto with runs that outlive their process, in a SQLite file of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from scenarios import QUESTION, main
from with_tenuto import WithTenuto

from tenuto import Agent, Tenuto
from tenuto.store import SQLiteStore


class WithDurable(WithTenuto):
    async def start(self, base_url: str) -> None:
        await super().start(base_url)
        self._place = TemporaryDirectory(ignore_cleanup_errors=True)
        self._store = SQLiteStore(Path(self._place.name) / "tenuto.db")
        self._apps: dict[Tenuto, asyncio.Task[None]] = {}

    async def stop(self) -> None:
        for app, started in self._apps.items():
            await started
            await app.aclose()
        self._place.cleanup()

    async def park(self, model: str) -> None:
        result = await self._agent(model).generate(QUESTION, require_tool_approval=True)
        if result.finish_reason != "suspended":
            message = f"the run ended with {result.finish_reason} and does not wait"
            raise AssertionError(message)

    def _new_agent(self, model: str) -> Agent:
        app = Tenuto(agents={"bench": super()._new_agent(model).replace(durable=True)}, store=self._store)
        self._apps[app] = asyncio.ensure_future(app.start())
        return app.get_agent("bench")


if __name__ == "__main__":
    main(WithDurable())
