"""The outcome of a tool call after the processors of its result.

Invariant: a call that ran took effect, whether or not its result was accepted.
"""

from __future__ import annotations

from msgspec import Struct

from tenuto.machine.records import Blocked
from tenuto.tools.outcome import Outcome


class Checked(Struct, frozen=True):
    """The outcome of a call after the processors.

    Attributes:
        refused: A processor did not accept the result; the model is told why, and may call again.
        blocked: A processor ended the run.
    """

    outcome: Outcome
    refused: bool = False
    blocked: Blocked | None = None

    @property
    def withheld(self) -> bool:
        """Whether the call took effect and nobody gets its result."""
        return self.refused or self.blocked is not None
