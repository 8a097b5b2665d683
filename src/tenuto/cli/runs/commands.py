"""The options of `tenuto runs`; what the commands do is in the modules beside this one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import typer

from tenuto.app import Tenuto
from tenuto.cli import screen
from tenuto.cli.runs import live
from tenuto.cli.runs.listing import list_runs
from tenuto.cli.runs.places import Place, within
from tenuto.cli.runs.show import show_run
from tenuto.store.ports import RunStatus

runs: typer.Typer = typer.Typer(no_args_is_help=True, help="Look at stored runs, and drive on those that wait.")

AppName = Annotated[
    str | None, typer.Option("--app", metavar="MODULE:APP", help="The Tenuto app: my_module:app, or file.py:app.")
]
StorePath = Annotated[
    Path | None, typer.Option("--store", metavar="FILE", help="The app's SQLite file; no code is imported.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]


@runs.command(name="list")
def list_command(
    app: AppName = None,
    store: StorePath = None,
    status: Annotated[str | None, typer.Option(help=f"Only runs that are {', '.join(get_args(RunStatus))}.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 20,
    in_json: AsJson = False,
) -> None:
    """List runs: id, agent, status, age, and the calls that wait for a decision."""
    place, wanted = _place(app, store), _status(status)
    with screen.failures():
        within(place, lambda app: list_runs(app, status=wanted, limit=limit, in_json=in_json, now=time.time()))


@runs.command()
def show(
    run: RunId,
    app: AppName = None,
    store: StorePath = None,
    events: Annotated[bool, typer.Option("--events", help="Also the log of chunks.")] = False,
    in_json: AsJson = False,
) -> None:
    """Show what a run did, from its journal."""
    place = _place(app, store)
    with screen.failures():
        within(place, lambda app: show_run(app, run, place, events=events, in_json=in_json, now=time.time()))


@runs.command()
def watch(
    run: RunId,
    app: AppName = None,
    store: StorePath = None,
    offset: Annotated[int, typer.Option(min=0, help="Index of the first event to show.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on when the run waits for a decision.")] = False,
) -> None:
    """Follow a run as it goes on, whoever drives it. Ctrl-C stops watching, not the run."""
    place = _place(app, store)
    with screen.failures():
        code = within(place, lambda app: live.watch_run(app, run, place, offset=offset, follow=follow))
    raise typer.Exit(code)


@runs.command()
def resume(
    run: RunId,
    *,
    app: AppName = None,
    call: Annotated[str | None, typer.Option(help="The call; may be left out when one waits.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Let the call run.")] = False,
    decline: Annotated[bool, typer.Option("--decline", help="Keep the call from running.")] = False,
    data: Annotated[str | None, typer.Option(metavar="JSON", help="What a suspended call waits for.")] = None,
    args: Annotated[str | None, typer.Option(metavar="JSON", help="With --approve: run with these arguments.")] = None,
    reason: Annotated[str | None, typer.Option(help="With --decline: what the model is told.")] = None,
) -> None:
    """Answer a call that waits, and drive the run on here. Without an answer: say what is asked."""
    place, reply = _app_place(app), _reply(approve, decline, data, args, reason)
    with screen.failures():
        code = _driving(run, place, lambda app: live.resume_run(app, run, call, reply, place))
    raise typer.Exit(code)


@runs.command()
def recover(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The id of the run.")] = None,
    app: AppName = None,
    every: Annotated[bool, typer.Option("--all", help="All runs of the app's agents whose process is gone.")] = False,
) -> None:
    """Drive on here what a process left that is gone."""
    if every == (run is not None):
        raise _misused("give the id of a run, or --all")
    place = _app_place(app)
    with screen.failures():
        if run is None:
            code = within(place, live.recover_all)
        else:
            code = _driving(run, place, lambda app: live.recover_one(app, run, place))
    raise typer.Exit(code)


@runs.command()
def abort(
    run: RunId,
    app: AppName = None,
    store: StorePath = None,
    reason: Annotated[str | None, typer.Option(help="Kept with the run.")] = None,
) -> None:
    """Stop a run, wherever it is driven."""
    place = _place(app, store)
    with screen.failures():
        code = within(place, lambda app: live.abort_run(app, run, reason, place))
    raise typer.Exit(code)


def _driving(run: str, place: Place, work: Callable[[Tenuto], Awaitable[int]]) -> int:
    try:
        return within(place, work)
    except KeyboardInterrupt:
        screen.note(f"left where it stands; tenuto runs recover {run} {place.option}", "yellow")
        raise


def _place(app: str | None, store: Path | None) -> Place:
    if (app is None) == (store is None):
        raise _misused("give --app MODULE:APP or --store FILE, one of the two")
    return Place(app=app, store=store)


def _app_place(app: str | None) -> Place:
    if app is None:
        raise _misused("give --app MODULE:APP: driving a run on needs its agent")
    return Place(app=app)


def _misused(message: str) -> typer.Exit:
    screen.failed(message)
    return typer.Exit(2)


def _status(given: str | None) -> RunStatus | None:
    known: tuple[RunStatus, ...] = get_args(RunStatus)
    for status in known:
        if given == status:
            return status
    if given is None:
        return None
    raise _misused(f"--status: {given!r} is none of {', '.join(known)}")


def _reply(approve: bool, decline: bool, data: str | None, args: str | None, reason: str | None) -> live.Reply | None:
    if approve + decline + (data is not None) > 1:
        raise _misused("give one answer: --approve, --decline or --data")
    if args is not None and not approve:
        raise _misused("--args: goes with --approve")
    if reason is not None and not decline:
        raise _misused("--reason: goes with --decline")
    if data is not None:
        return live.Reply(None, data=_json(data, Any, "--data"))
    edited = None if args is None else _json(args, dict[str, Any], "--args")
    return live.Reply(approve, args=edited, reason=reason) if approve or decline else None


def _json(text: str, kind: Any, option: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise _misused(f"{option} cannot be read: {error}") from None
