"""Finding a provider or a model by name, in the snapshot with our own facts over it.

Invariant: one file for each provider: its first line is the provider, each further line one of its models. A lookup
reads that one file, once per process; a name that no file has reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tenuto.models.catalogue.facts import ModelInfo, Provider
from tenuto.models.catalogue.own import ALIASES, PROVIDERS, SERVERS

SNAPSHOT = Path(__file__).parent / "providers"
"""The files, written by `make catalogue`."""

_NO_MODELS: Mapping[str, ModelInfo] = {}
_provider = msgspec.json.Decoder(Provider)
_model = msgspec.json.Decoder(ModelInfo)


@cache
def names() -> tuple[str, ...]:
    """Every provider, sorted; without other names of the same one, see `own.ALIASES`."""
    return tuple(sorted({*SERVERS, *_files()}))


@cache
def find_provider(provider: str) -> Provider | None:
    """The provider of this name, or of another name people write for it; None when the catalogue has none."""
    name = ALIASES.get(provider, provider)
    if name in SERVERS:
        return SERVERS[name]
    if name not in _files():
        return None
    with (SNAPSHOT / f"{name}.jsonl").open("rb") as lines:
        return replace(_provider.decode(lines.readline()), **PROVIDERS.get(name, {}))


def find_model(provider: str, model_id: str) -> ModelInfo | None:
    """What is known of a model; None when the catalogue does not have it, which says nothing against it."""
    return _models(ALIASES.get(provider, provider)).get(model_id)


def models_of(provider: str) -> tuple[ModelInfo, ...]:
    """All models of a provider that the catalogue has, by id."""
    return tuple(_models(ALIASES.get(provider, provider)).values())


def info_of(model: object) -> ModelInfo | None:
    """What is known of a model object: its attribute `info`, if it has one."""
    info = getattr(model, "info", None)
    return info if isinstance(info, ModelInfo) else None


@cache
def _files() -> frozenset[str]:
    return frozenset(path.stem for path in SNAPSHOT.glob("*.jsonl"))


@cache
def _models(name: str) -> Mapping[str, ModelInfo]:
    if name not in _files():
        return _NO_MODELS
    _, *lines = (SNAPSHOT / f"{name}.jsonl").read_bytes().splitlines()
    return {info.id: info for info in map(_model.decode, lines)}
