"""`tenuto doctor`: what of the installation is there, what is missing, and the remedy.

Invariant: it changes nothing, fetches nothing, and shows no value of any variable that may hold a secret.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from tenuto.core.errors import TenutoError
from tenuto.messages.turns import Prompt, UserTurn
from tenuto.messages.turns import Text as TextPart
from tenuto.models.catalogue import find_provider, names
from tenuto.models.local import KNOWN, find, local_model
from tenuto.models.local.backend import INSTALL, installed, load_backend
from tenuto.models.local.weights import cache_dir
from tenuto.models.ports import Finish, ModelRequest, ModelSettings
from tenuto.store.doctor import doctor_checks

_PACKAGES = ("msgspec", "aiohttp", "pydantic", "typer", "rich")
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class Check(Struct, frozen=True):
    """One line: `ok`, `warn` (works without it) or `fail`, with the remedy for the latter two."""

    name: str
    status: Literal["ok", "warn", "fail"]
    said: str
    remedy: str = ""


def examine(store: Path | None = None) -> bool:
    """Make every check, also of the store in a file if one is given, and show it as it is made; whether none failed."""
    good = True
    for check in CHECKS:
        try:
            found = check()
        except Exception as error:  # noqa: BLE001 - a broken installation breaks anywhere
            found = Check(check.__name__.strip("_"), "fail", f"{type(error).__name__}: {error}", "reinstall tenuto")
        good = _shown(found) and good
    for each in () if store is None else doctor_checks(store):
        good = _shown(Check(f"store {each.name}", each.state, each.text, each.remedy)) and good
    return good


def _shown(found: Check) -> bool:
    line = Text.assemble((f"{found.status:<5}", _STYLES[found.status]), f"{found.name:<18}{found.said}")
    console = Console(highlight=False, soft_wrap=True)
    console.print(line.append(f"  -> {found.remedy}") if found.remedy else line)
    return found.status != "fail"


def version_of(package: str) -> str:
    """The installed version; `not installed` without one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages() -> Check:
    versions = {name: version_of(name) for name in _PACKAGES}
    said = ", ".join(f"{name} {found}" for name, found in {"tenuto": version_of("tenuto"), **versions}.items())
    if "not installed" in versions.values():
        return Check("packages", "fail", said, "pip install --upgrade tenuto")
    return Check("packages", "ok", said)


def _event_loop() -> Check:
    async def name() -> str:
        return type(asyncio.get_running_loop()).__name__

    return Check("event loop", "ok", asyncio.run(name()) + (", uvloop is installed" if find_spec("uvloop") else ""))


def _keys() -> Check:
    providers = (provider for name in names() if (provider := find_provider(name)) is not None)
    variables = dict.fromkeys(key for provider in providers for key in provider.keys)
    found = [name for name in variables if os.environ.get(name)]
    if found:
        return Check("provider keys", "ok", f"set: {', '.join(found)}")
    return Check("provider keys", "warn", "none is set", "export OPENAI_API_KEY=..., or use a local model or Ollama")


def _engine() -> Check:
    if not installed():
        return Check("local engine", "warn", "xllamacpp is not installed", INSTALL)
    try:
        load_backend()
    except TenutoError as error:
        return Check("local engine", "fail", str(error))
    return Check("local engine", "ok", f"xllamacpp {version_of('xllamacpp')} loads")


def _weights() -> Check:
    name = next(iter(KNOWN))
    try:
        path = find(name)
    except TenutoError as error:
        return Check("weights", "fail", str(error))
    if path is None:
        return Check("weights", "warn", f"{name} is not in {cache_dir()}", f"tenuto pull {name}")
    return Check("weights", "ok", f"{name}, SHA-256 verified, {path}")


def _local_model() -> Check:
    name = next(iter(KNOWN))
    if not installed() or find(name) is None:
        return Check("local model", "warn", "not tried", "see the lines above")
    started = time.monotonic()
    tokens = asyncio.run(_ask(name))
    return Check("local model", "ok", f"{name} loaded and wrote {tokens} tokens in {time.monotonic() - started:.1f} s")


async def _ask(name: str) -> int:
    prompt = Prompt((), [UserTurn((TextPart("What is the capital of France?"),))])
    request = ModelRequest(prompt=prompt, settings=ModelSettings(max_output_tokens=8))
    tokens = 0
    async for batch in local_model(name).stream(request):
        tokens += sum(part.usage.output_tokens for part in batch if isinstance(part, Finish))
    return tokens


CHECKS: tuple[Callable[[], Check], ...] = (_python, _packages, _event_loop, _keys, _engine, _weights, _local_model)
"""In the order they are shown."""
