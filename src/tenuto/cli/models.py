"""`tenuto models`: the providers and models that a `provider/model` string can name, and which have a key here.

Invariant: it asks nobody and shows no value of any variable, only whether it is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenuto.cli.runs.output import as_json
from tenuto.cli.screen import note
from tenuto.core.errors import ConfigurationError
from tenuto.models.catalogue import ModelInfo, Provider, find_provider, models_of, names

_WIDE = 1_000
"""Columns of a line that goes to a file or a pipe: nothing is cut there."""


class Listed(Struct, frozen=True):
    """A provider and those of its models that were asked for."""

    provider: Provider
    models: tuple[ModelInfo, ...]

    @property
    def variable(self) -> str | None:
        """The variable that holds its key here."""
        return next((name for name in self.provider.keys if os.environ.get(name, "").strip()), None)

    @property
    def usable(self) -> bool:
        """Whether there is a key, or none is needed."""
        return self.variable is not None or not self.provider.keys


def show_models(pattern: str | None, *, provider: str | None, with_key: bool, in_json: bool) -> bool:
    """Print what fits; whether anything did. Without a pattern and a provider: the providers alone.

    Raises:
        ConfigurationError: There is no such provider.
    """
    wanted = names() if provider is None else (_known(provider),)
    listed = [each for each in _listed(wanted, pattern) if each.usable or not with_key]
    if pattern is None and provider is None:
        _show(in_json, (_provider_row(each) for each in listed), lambda: _providers(listed))
    else:
        _show(in_json, (_model_row(each, info) for each in listed for info in each.models), lambda: _models(listed))
    if not listed:
        note(
            f"nothing fits{' among the providers with a key' if with_key else ''}; `tenuto models` lists the providers"
        )
    return bool(listed)


def _listed(wanted: Iterable[str], pattern: str | None) -> Iterator[Listed]:
    for name in wanted:
        provider = find_provider(name)
        models = tuple(info for info in models_of(name) if pattern is None or _fits(f"{name}/{info.id}", pattern))
        if provider is not None and (models or pattern is None):
            yield Listed(provider, models)


def _fits(name: str, pattern: str) -> bool:
    """Whether the pattern is within the name, or matches all of it when it has `*`, `?` or `[`."""
    name, pattern = name.lower(), pattern.lower()
    return fnmatchcase(name, pattern) if set(pattern) & set("*?[") else pattern in name


def _known(name: str) -> str:
    found = find_provider(name)
    if found is not None:
        return found.name
    near = get_close_matches(name, names(), 3, 0.5)
    hint = f"near names: {', '.join(near)}" if near else "`tenuto models` lists them all"
    raise ConfigurationError(f"There is no provider {name!r} in the catalogue; {hint}.", id="MODEL_PROVIDER_UNKNOWN")


# -- on the screen -----------------------------------------------------------------------------------------------------


def _show(in_json: bool, rows: Iterable[dict[str, Any]], table: Any) -> None:
    if in_json:
        print(as_json(list(rows)))
        return
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=_WIDE)).print(table())


def _providers(listed: Iterable[Listed]) -> Table:
    table = _table("PROVIDER", "MODELS", "SPEAKS", "KEY", right=("MODELS",))
    for each in listed:
        table.add_row(each.provider.name, str(len(each.models)), each.provider.dialect or "-", _key(each))
    return table


def _models(listed: Iterable[Listed]) -> Table:
    table = _table("MODEL", "CONTEXT", "$ IN", "$ OUT", "CAN", "KEY", right=("CONTEXT", "$ IN", "$ OUT"))
    for each in listed:
        for info in each.models:
            name = Text(f"{each.provider.name}/{info.id}", "dim" if info.deprecated else "")
            price = info.price
            rates = ("-", "-") if price is None else (f"{price.input:g}", f"{price.output:g}")
            table.add_row(name, _size(info.context), *rates, ", ".join(abilities(info)), _key(each))
    return table


def _table(*heads: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    return table


def abilities(info: ModelInfo) -> list[str]:
    """What a model can do, in words."""
    said = {"tools": info.tools, "reasoning": info.reasoning, "schema": info.structured is True}
    kinds = [f"reads {kind}" for kind in info.input if kind != "text"]
    kinds += [f"writes {kind}" for kind in info.output if kind != "text"]
    return [*(word for word, can in said.items() if can), *kinds, *(["deprecated"] if info.deprecated else [])]


def _key(each: Listed) -> Text:
    if each.variable is not None:
        return Text(f"{each.variable} is set", "green")
    if not each.provider.keys:
        return Text("none needed", "green")
    return Text(f"set {' or '.join(each.provider.keys)}", "yellow")


def _size(tokens: int | None) -> str:
    """Tokens in thousands or millions."""
    if tokens is None:
        return "-"
    return f"{tokens / 1e6:.3g}M" if tokens >= 999_500 else f"{tokens / 1e3:.3g}k"


# -- as JSON -----------------------------------------------------------------------------------------------------------


def _provider_row(each: Listed) -> dict[str, Any]:
    entry = each.provider
    return {
        "provider": entry.name,
        "label": entry.label,
        "models": len(each.models),
        "dialect": entry.dialect,
        "url": entry.url,
        "docs": entry.docs,
        **_key_fields(each),
    }


def _model_row(each: Listed, info: ModelInfo) -> dict[str, Any]:
    facts = {name: to_builtins(getattr(info, name)) for name in info.__struct_fields__ if name != "id"}
    return {
        "model": f"{each.provider.name}/{info.id}",
        **facts,
        "dialect": info.dialect or each.provider.dialect,
        "url": info.url or each.provider.url,
        **_key_fields(each),
    }


def _key_fields(each: Listed) -> dict[str, Any]:
    return {"keys": list(each.provider.keys), "key_set": each.variable, "usable": each.usable}
