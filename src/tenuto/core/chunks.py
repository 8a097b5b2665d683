"""The chunks of a run's stream: one frozen struct per type, a closed union with exact wire names.

Invariant: every chunk has a `type`; all but `data-*` have `run_id` and `from_`, and all but these, `object` and
`object-result` have a payload. Chunks are values: nothing changes one after it was written to the log.

Source: chunk catalogue of the Mastra agent stream; `attempt-restarted` and `gap` are tenuto's own.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, to_builtins

from tenuto.core import payloads as p
from tenuto.core.payloads import Json, wire_name

ChunkFrom = Literal["AGENT", "USER", "SYSTEM", "WORKFLOW", "NETWORK"]


class _Base(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag_field="type"):
    @property
    def type(self) -> str:
        """The wire name of this chunk's type."""
        return str(self.__struct_config__.tag)

    def to_dict(self) -> dict[str, Any]:
        """The wire form as plain values: camelCase names, absent fields left out."""
        return to_builtins(self)


class Chunk(_Base, frozen=True):
    """Base of the chunks that carry an envelope."""

    run_id: str
    from_: ChunkFrom


class Start(Chunk, frozen=True, tag="start"):
    """The first chunk of a fresh run."""

    payload: p.StartPayload


class StepStart(Chunk, frozen=True, tag="step-start"):
    """A model call begins."""

    payload: p.StepStartPayload


class ResponseMetadata(Chunk, frozen=True, tag="response-metadata"):
    """The provider named its response."""

    payload: p.ResponseMetadataPayload


class TextStart(Chunk, frozen=True, tag="text-start", gc=False):
    """A text part begins."""

    payload: p.TextStartPayload


class TextDelta(Chunk, frozen=True, tag="text-delta", gc=False):
    """Text of the answer."""

    payload: p.TextDeltaPayload


class TextEnd(Chunk, frozen=True, tag="text-end", gc=False):
    """A text part is complete."""

    payload: p.TextEndPayload


class ReasoningStart(Chunk, frozen=True, tag="reasoning-start", gc=False):
    """A reasoning part begins."""

    payload: p.ReasoningStartPayload


class ReasoningDelta(Chunk, frozen=True, tag="reasoning-delta", gc=False):
    """Reasoning, not part of the answer."""

    payload: p.ReasoningDeltaPayload


class ReasoningEnd(Chunk, frozen=True, tag="reasoning-end", gc=False):
    """A reasoning part is complete."""

    payload: p.ReasoningEndPayload


class ReasoningSignature(Chunk, frozen=True, tag="reasoning-signature"):
    """A signature over reasoning."""

    payload: p.ReasoningSignaturePayload


class RedactedReasoning(Chunk, frozen=True, tag="redacted-reasoning"):
    """Encrypted reasoning."""

    payload: p.RedactedReasoningPayload


class Source(Chunk, frozen=True, tag="source"):
    """A source the provider used."""

    payload: p.SourcePayload


class File(Chunk, frozen=True, tag="file"):
    """A file the model made."""

    payload: p.FilePayload


class ReasoningFile(Chunk, frozen=True, tag="reasoning-file"):
    """A file made while reasoning."""

    payload: p.FilePayload


class Custom(Chunk, frozen=True, tag="custom"):
    """A part only one provider knows."""

    payload: p.CustomPayload


class ToolInputStart(Chunk, frozen=True, tag="tool-call-input-streaming-start", gc=False):
    """The arguments of a call begin."""

    payload: p.ToolInputStartPayload


class ToolInputDelta(Chunk, frozen=True, tag="tool-call-delta", gc=False):
    """JSON text of a call's arguments."""

    payload: p.ToolInputDeltaPayload


class ToolInputEnd(Chunk, frozen=True, tag="tool-call-input-streaming-end", gc=False):
    """The arguments of a call are complete."""

    payload: p.ToolInputEndPayload


class ToolCall(Chunk, frozen=True, tag="tool-call"):
    """A complete call; exactly once per call."""

    payload: p.ToolCallPayload
    metadata: Json = None


class ToolOutput(Chunk, frozen=True, tag="tool-output"):
    """Something a tool wrote while it ran."""

    payload: p.ToolOutputPayload


class ToolResult(Chunk, frozen=True, tag="tool-result"):
    """A call succeeded."""

    payload: p.ToolResultPayload
    metadata: Json = None


class ToolError(Chunk, frozen=True, tag="tool-error"):
    """A call failed."""

    payload: p.ToolErrorPayload
    metadata: Json = None


class ToolCallApproval(Chunk, frozen=True, tag="tool-call-approval"):
    """A call waits for a decision."""

    payload: p.ToolCallApprovalPayload
    metadata: Json = None


class ToolCallSuspended(Chunk, frozen=True, tag="tool-call-suspended"):
    """A call suspended itself."""

    payload: p.ToolCallSuspendedPayload
    metadata: Json = None


class ToolOutputDenied(Chunk, frozen=True, tag="tool-output-denied"):
    """A call was declined."""

    payload: p.ToolOutputDeniedPayload
    metadata: Json = None


class IsTaskComplete(Chunk, frozen=True, tag="is-task-complete"):
    """Scorers said whether the task is complete; before the `step-finish` of the step they looked at."""

    payload: p.IsTaskCompletePayload


class StepFinish(Chunk, frozen=True, tag="step-finish"):
    """The end of a step, after its tools."""

    payload: p.StepFinishPayload


class Finish(Chunk, frozen=True, tag="finish"):
    """The end of a completed, failed or aborted run."""

    payload: p.FinishPayload


class Tripwire(Chunk, frozen=True, tag="tripwire"):
    """A processor blocked the run."""

    payload: p.TripwirePayload


class Error(Chunk, frozen=True, tag="error"):
    """The run failed."""

    payload: p.ErrorPayload


class Abort(Chunk, frozen=True, tag="abort"):
    """The run was aborted."""

    payload: p.AbortPayload


class Raw(Chunk, frozen=True, tag="raw"):
    """A provider's own frame."""

    payload: Json


class AttemptRestarted(Chunk, frozen=True, tag="attempt-restarted"):
    """A model call is made again."""

    payload: p.AttemptRestartedPayload


class Gap(Chunk, frozen=True, tag="gap"):
    """Events that a viewer asked for are no longer kept; only viewers see it, it is in no log."""

    payload: p.GapPayload


class Object(_Base, frozen=True, tag="object"):
    """Structured output so far; not validated."""

    run_id: str
    from_: ChunkFrom
    object: Json
    metadata: Json = None


class ObjectResult(_Base, frozen=True, tag="object-result"):
    """Structured output, validated."""

    run_id: str
    from_: ChunkFrom
    object: Json
    metadata: Json = None


class Data(Struct, frozen=True, omit_defaults=True):
    """Custom data; `type` is `data-<name>`. A transient one is not stored."""

    type: str
    data: Json
    id: str | None = None
    transient: bool | None = None

    def __post_init__(self) -> None:
        """Refuse a type that would not come back as data.

        Raises:
            ValueError: `type` does not start with `data-`.
        """
        if not self.type.startswith("data-"):
            message = f"The type of a data chunk is `data-<name>`, not {self.type!r}."
            raise ValueError(message)

    def to_dict(self) -> dict[str, Any]:
        """The wire form as plain values."""
        return to_builtins(self)


TaggedChunk = (
    Start
    | StepStart
    | ResponseMetadata
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ReasoningSignature
    | RedactedReasoning
    | Source
    | File
    | ReasoningFile
    | Custom
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | ToolCall
    | ToolOutput
    | ToolResult
    | ToolError
    | ToolCallApproval
    | ToolCallSuspended
    | ToolOutputDenied
    | IsTaskComplete
    | StepFinish
    | Finish
    | Tripwire
    | Error
    | Abort
    | Raw
    | AttemptRestarted
    | Gap
    | Object
    | ObjectResult
)
AnyChunk = TaggedChunk | Data

DELTAS = frozenset({TextDelta, ReasoningDelta, ToolInputDelta, Raw, Object})
"""The classes a live reader sees before they are stored (with transient `Data`); each `object` replaces the last."""

TERMINAL = frozenset({Finish, Tripwire, Error, ToolCallApproval, ToolCallSuspended})
"""The classes a stream can end with."""
