"""Puts the content of linked files into the prompt, where the model cannot fetch them itself.

Invariant: what is stored, in messages and in the journal, keeps the link: the content lives in the prompt of this
process only, fetched once for a run, and another process that takes the run up fetches it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, assert_never, cast

from msgspec.structs import replace

from tenuto.core.errors import ModelError
from tenuto.messages.turns import AssistantTurn, FilePart, SystemTurn, ToolTurn, UserTurn, linked_files
from tenuto.models.wire_format import TakesUrls

if TYPE_CHECKING:
    from tenuto.messages.turns import Prompt, Turn
    from tenuto.models.downloads import RemoteFile
    from tenuto.models.ports import LanguageModel
    from tenuto.steps.run import Run

Takes = Callable[[FilePart], bool]


async def fetch_links(run: Run, prompt: Prompt, model: LanguageModel) -> None:
    """Fetch the files that the step's prompt links to and `model` cannot fetch, and put them there.

    Raises:
        ModelError: `DOWNLOAD_ASSETS_FAILED`.
    """
    takes = _taker(run, model)
    wanted = [file for at in prompt.linked for file in linked_files(prompt.turns[at]) if not takes(file)]
    missing = {str(file.url): file.media_type for file in wanted if file.url not in run.fetched}
    if missing:
        await _fetch(run, missing)
    for at in list(prompt.linked) if wanted else ():
        prompt.put(at, _filled(prompt.turns[at], run.fetched, takes))


async def _fetch(run: Run, missing: dict[str, str]) -> None:
    from tenuto.models.remote_files import RemoteFiles

    files, slots = RemoteFiles(run.options.downloads), asyncio.Semaphore(run.options.downloads.concurrency)

    async def fetch(url: str, media_type: str) -> None:
        async with slots:
            run.fetched[url] = await files.fetch(url, media_type, run.abort.signal)

    try:
        async with asyncio.TaskGroup() as group:
            for url, media_type in missing.items():
                group.create_task(fetch(url, media_type))
    except* ModelError as failed:
        raise _first(failed) from None


def _first(failed: BaseExceptionGroup[ModelError]) -> ModelError:
    error: Any = failed
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[ModelError]", error).exceptions[0]
    return cast("ModelError", error)


def _taker(run: Run, model: LanguageModel) -> Takes:
    """Which files stay links: a URL that is not of the web always does, for only a provider can know it."""
    asks: Any = model.takes_url if isinstance(model, TakesUrls) else None
    always = run.options.downloads.always

    def takes(file: FilePart) -> bool:
        url = file.url or ""
        if url[:7].lower() != "http://" and url[:8].lower() != "https://":
            return True
        return not always and (asks is None or asks(file.media_type, url))

    return takes


def _filled(turn: Turn, fetched: dict[str, RemoteFile], takes: Takes) -> Turn:
    def filled(content: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(_with_content(part, fetched, takes) for part in content)

    match turn:
        case UserTurn() | AssistantTurn():
            return replace(turn, content=filled(turn.content))
        case ToolTurn():
            results = [replace(each, content=filled(each.content)) if each.content else each for each in turn.results]
            return replace(turn, results=tuple(results))
        case SystemTurn():
            return turn
        case _:
            assert_never(turn)


def _with_content(part: Any, fetched: dict[str, RemoteFile], takes: Takes) -> Any:
    if not isinstance(part, FilePart) or part.url not in fetched or takes(part):
        return part
    file = fetched[part.url]
    return replace(part, media_type=file.media_type, url=None, data=file.data)
