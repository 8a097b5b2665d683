"""One generation of the engine, read on the event loop, and what the engine says in it.

Invariant: leaving early, aborting or closing the loop stops the generation at its next token, and nobody waits for
that; an answer ends with the engine's own end marker, or it raises.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

from msgspec import Struct, convert

from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ModelError
from tenuto.models.local.engine import Completion, Engine
from tenuto.models.local.mailbox import Mailbox


class _Choice(Struct, frozen=True):
    text: str = ""
    finish_reason: str | None = None


class TokenCounts(Struct, frozen=True):
    """What the engine counted. `cached` tokens of the prompt were still in its memory."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: Mapping[str, int] = {}


class EngineFault(Struct, frozen=True):
    """The engine refused or failed, in its own words."""

    message: str = ""
    type: str = ""
    code: int | None = None
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class EngineChunk(Struct, frozen=True):
    """What the engine says at once: usually one token's text; with the last, why it ended and what it counted."""

    id: str = ""
    created: int | None = None
    choices: tuple[_Choice, ...] = ()
    usage: TokenCounts | None = None
    error: EngineFault | None = None

    @property
    def text(self) -> str:
        """The new text."""
        return self.choices[0].text if self.choices else ""

    @property
    def finish_reason(self) -> str | None:
        """`stop` or `length` in the last chunk."""
        return self.choices[0].finish_reason if self.choices else None


async def generate(
    engine: Engine, completion: Completion, abort: AbortSignal | None
) -> AsyncGenerator[Sequence[EngineChunk], None]:
    """Run one generation and yield what the engine says, a batch for each wake-up of the loop.

    Closing the generator stops the engine at its next token. It does not wait for that.

    Raises:
        ModelError: The engine refused, failed or ended without saying why, or the caller aborted.
    """
    mailbox = Mailbox()
    forget = abort.listen(mailbox.cancel) if abort is not None else None
    try:
        engine.submit(completion, mailbox)
        while True:
            chunks = await mailbox.take()
            if mailbox.cancelled:
                raise _aborted()
            batch = [convert(chunk, EngineChunk) for chunk in chunks]
            _refuse_faults(engine, batch)
            if batch:
                yield batch
            elif mailbox.ended:
                raise mailbox.error or _cut(engine)
            if any(chunk.finish_reason for chunk in batch):
                return
    finally:
        mailbox.cancelled = True
        if forget is not None:
            forget()


def _aborted() -> ModelError:
    message = "The call of local was aborted by its caller."
    return ModelError(message, id="MODEL_CALL_ABORTED", provider="local", category="USER")


def _cut(engine: Engine) -> ModelError:
    return ModelError(
        f"The local engine stopped without an end marker in {engine.path.name}; what came before is incomplete.",
        id="MODEL_STREAM_CUT",
        provider="local",
        retryable=True,
    )


def _refuse_faults(engine: Engine, batch: Sequence[EngineChunk]) -> None:
    for chunk in batch:
        if (fault := chunk.error) is None:
            continue
        if fault.type == "exceed_context_size_error":
            raise ModelError(
                f"The prompt has {fault.n_prompt_tokens} tokens, and the context of {engine.path.name} is limited to "
                f"{fault.n_ctx}; send less history, or make the model with a larger `context`.",
                id="MODEL_CONTEXT_EXCEEDED",
                provider="local",
                code=fault.type,
                details={"prompt_tokens": fault.n_prompt_tokens, "context": fault.n_ctx},
            )
        raise ModelError(
            f"The local engine failed with {engine.path.name}: {fault.message}",
            id="LOCAL_ENGINE_FAILED",
            provider="local",
            code=None if fault.code is None else str(fault.code),
            type=fault.type,
        )
