"""Messages put together so that what a client sends again does not stand there twice.

Invariant: a call is answered once, and the first answer stands. What this server stored is never changed by what a
client claims, but for one thing: a call that waits for its client takes the result that the client brings. So nobody
can forge what a tool of the server's own returned, nor answer a call that awaits an approval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenuto.messages import stored as s
from tenuto.messages.answers import Answer, is_open, outcome_of, settle

MayAnswer = Callable[[str], bool]
"""Whether a client brings the results of the tool of this name; False for tools that the server runs itself."""


class Merged(Struct, frozen=True):
    """What a call adds to a conversation.

    Attributes:
        new: Messages that were not there before.
        changed: Earlier messages that now hold a client's results, whole.
        unknown: Answers to calls that nobody made.
        refused: Ids of calls for which a client claimed what is not its to say; the earlier form stands.
    """

    new: tuple[s.Message, ...]
    changed: tuple[s.Message, ...]
    unknown: tuple[Answer, ...] = ()
    refused: tuple[str, ...] = ()


def merge(
    known: Sequence[s.Message], given: Sequence[s.Message], answers: Sequence[Answer], may_answer: MayAnswer
) -> Merged:
    """What `given`, a client's messages, adds to the stored conversation `known`; a pure function.

    A message is a copy of a known one when it has its id, when it makes a call that the known one makes, or, for an
    assistant's message under a fresh id, when it says the same. What stands before the last such assistant's message
    was sent before and is no news, even where `known` is a window that does not reach back so far. After it, a user's
    message that repeats the known one at its place is that one. A list without any copy is all new.

    A new assistant's message may claim results of client tools only: calls of other tools lose their claimed result.

    Args:
        known: As stored; thread and resource of what is new are the caller's to set.
        given: The messages of the call, in order.
        answers: Results in it whose calls it does not make.
        may_answer: See `MayAnswer`.
    """
    conversation = Conversation(may_answer)
    for message in known:
        conversation.add(message, own=True)
    tail = _tail(known, given)
    for message in given[: len(given) - len(tail)]:
        conversation.update(message)
    for message in tail:
        conversation.add(message)
    unknown = tuple(answer for answer in answers if not conversation.answer(answer))
    ids = {message.id for message in known}
    messages = conversation.messages
    return Merged(
        tuple(conversation.without_claims(message) for message in messages if message.id not in ids),
        tuple(after for before, after in zip(known, messages, strict=False) if before != after),
        unknown,
        tuple(dict.fromkeys(conversation.refused)),
    )


class OtherRole(ValueError):
    """Two messages of one id and two roles; `at` is the place of the first."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Conversation:
    """Messages in order, each once.

    Args:
        may_answer: For calls in messages of the server's own.

    Attributes:
        messages: What has been added, copies joined.
        refused: Ids of calls that a copy claimed something else about.
    """

    def __init__(self, may_answer: MayAnswer) -> None:
        self.messages: list[s.Message] = []
        self.refused: list[str] = []
        self._may_answer = may_answer
        self._own: list[bool] = []
        self._places: dict[str, int] = {}
        self._callers: dict[str, list[int]] = {}

    def add(self, message: s.Message, *, own: bool = False) -> None:
        """Add a message, or take from it what is new when it is a copy; `own`: the server made it itself.

        Raises:
            OtherRole: Its id is that of a message of another role.
        """
        rest = self.update(message, own=own)
        if rest is not None:
            at = self._places[rest.id] = len(self.messages)
            self.messages.append(rest)
            self._own.append(own)
            self._index(at)

    def update(self, message: s.Message, *, own: bool = False) -> s.Message | None:
        """Take from a copy what is new in it; what is left is None, or the message itself when it is no copy."""
        at = self._places.get(message.id)
        if at is not None:
            if self.messages[at].role != message.role and not self._own[at]:
                raise OtherRole(at)
            self._replace(at, message, own=own)
            return None
        at = self._sharing(message, own=own)
        if at is None:
            return message
        if own:
            self._replace(at, message, own=True)
            return None
        rest = self._fill(at, message)
        return None if self._own[at] or not rest else _with_parts(message, rest)

    def answer(self, answer: Answer) -> bool:
        """Give the newest call of this id its answer; False when there is no such call."""
        found = None
        for at in reversed(self._callers.get(answer.call_id, ())):
            for place, part in _calls(self.messages[at]):
                if part.tool_invocation.tool_call_id == answer.call_id:
                    if is_open(part.tool_invocation):
                        self._answer(at, place, part, answer)
                        return True
                    found = found or part
        if found is not None:
            self._compare(found, answer)
        return found is not None

    def without_claims(self, message: s.Message) -> s.Message:
        """A client's message without results of tools that are not the client's."""
        parts = list(message.content.parts)
        for place, part in _calls(message):
            call = part.tool_invocation
            if not is_open(call) and not part.provider_executed and not self._may_answer(call.tool_name):
                self.refused.append(call.tool_call_id)
                opened = replace(call, state="call", result=None, error_text=None, is_error=None, approval=None)
                parts[place] = replace(part, tool_invocation=opened)
        return _with_parts(message, parts)

    def _replace(self, at: int, message: s.Message, *, own: bool) -> None:
        """A copy under the same id: of a client's message it is the newer state, with the outcomes known so far.

        The server's own word stands whichever comes first.
        """
        if self._own[at]:
            self._fill(at, message)
            return
        if own:
            claimed, self.messages[at], self._own[at] = self.messages[at], message, True
            self._places[message.id] = at
            self._index(at)
            self._fill(at, claimed)
            return
        outcomes = {part.tool_invocation.tool_call_id: part for _, part in _calls(self.messages[at])}
        parts = list(message.content.parts)
        for place, part in _calls(message):
            before = outcomes.get(part.tool_invocation.tool_call_id)
            if before is not None and not is_open(before.tool_invocation):
                parts[place] = before
        self.messages[at] = replace(_with_parts(message, parts), created_at=self.messages[at].created_at)
        self._index(at)

    def _index(self, at: int) -> None:
        for _, part in _calls(self.messages[at]):
            places = self._callers.setdefault(part.tool_invocation.tool_call_id, [])
            if at not in places:
                places.append(at)

    def _sharing(self, message: s.Message, *, own: bool) -> int | None:
        """Where the message stands of which this one, under another id, is a copy: it makes one of its calls.

        A call id alone does not tell, since some providers number the calls of each answer anew: one of the two must
        be the server's own, or the earlier one still wait for the result that this one has.
        """
        if message.role != "assistant":
            return None
        for _, part in _calls(message):
            call = part.tool_invocation
            for at in reversed(self._callers.get(call.tool_call_id, ())):
                before = [each.tool_invocation for _, each in _calls(self.messages[at])]
                same = [each for each in before if _same_call(each, call)]
                waits = any(is_open(each) for each in same) and not is_open(call)
                if same and (waits or self._own[at] != own):
                    return at
        return None

    def _fill(self, at: int, copy: s.Message) -> tuple[s.MessagePart, ...]:
        """Give the calls of a message the outcomes they have in `copy`; what else `copy` says that it does not."""
        known = {part.tool_invocation.tool_call_id for _, part in _calls(self.messages[at])}
        for _, part in _calls(copy):
            call = part.tool_invocation
            if not is_open(call):
                for place, before in list(_calls(self.messages[at])):
                    if before.tool_invocation.tool_call_id != call.tool_call_id:
                        continue
                    if is_open(before.tool_invocation):
                        self._answer(at, place, before, outcome_of(call))
                    else:
                        self._compare(before, outcome_of(call))
        said = self.messages[at].content.parts
        rest = [part for part in copy.content.parts if part not in said and not _is_call(part, known)]
        return () if all(isinstance(part, s.StepStartPart) for part in rest) else tuple(rest)

    def _answer(self, at: int, place: int, part: s.ToolInvocationPart, answer: Answer) -> None:
        if self._own[at] and not self._takes(part):
            self.refused.append(answer.call_id)
            return
        parts = list(self.messages[at].content.parts)
        parts[place] = settle(part, answer)
        self.messages[at] = _with_parts(self.messages[at], parts)

    def _takes(self, part: s.ToolInvocationPart) -> bool:
        """Whether a call of the server's own message waits for its client."""
        call = part.tool_invocation
        waits = call.state in {"call", "partial-call"} and not part.provider_executed
        return waits and self._may_answer(call.tool_name)

    def _compare(self, part: s.ToolInvocationPart, answer: Answer) -> None:
        """See that an answer is the known one, as it is or as users were shown it."""
        known = [outcome_of(each.tool_invocation) for each in (part, s.for_transcript(part))]
        outcomes = [(each.state, each.result, each.error_text) for each in known]
        if (answer.state, answer.result, answer.error_text) not in outcomes:
            self.refused.append(answer.call_id)


def _tail(known: Sequence[s.Message], given: Sequence[s.Message]) -> Sequence[s.Message]:
    """The messages of `given` that were not sent before."""
    for at in range(len(given) - 1, -1, -1):
        place = _place(known, given[at]) if given[at].role == "assistant" else None
        if place is not None:
            tail, after = given[at + 1 :], known[place + 1 :]
            again = 0
            while again < min(len(tail), len(after)) and _says_the_same(after[again], tail[again]):
                again += 1
            return tail[again:]
    return given


def _place(known: Sequence[s.Message], message: s.Message) -> int | None:
    """Where the assistant's message stands that `message` is a copy of."""
    for at in range(len(known) - 1, -1, -1):
        if known[at].role == "assistant" and (known[at].id == message.id or _is_copy(known[at], message)):
            return at
    return None


def _is_copy(known: s.Message, message: s.Message) -> bool:
    calls = [part.tool_invocation for _, part in _calls(known)]
    if any(_same_call(each, part.tool_invocation) for each in calls for _, part in _calls(message)):
        return True
    return not calls and _says_the_same(known, message)


def _says_the_same(known: s.Message, message: s.Message) -> bool:
    kinds = (s.TextPart, s.StoredFilePart)
    said, again = ([part for part in each.content.parts if isinstance(part, kinds)] for each in (known, message))
    return known.role == message.role and bool(said) and said == again


def _same_call(one: s.ToolInvocation, other: s.ToolInvocation) -> bool:
    return (one.tool_call_id, one.tool_name) == (other.tool_call_id, other.tool_name)


def _is_call(part: s.MessagePart, ids: set[str]) -> bool:
    return isinstance(part, s.ToolInvocationPart) and part.tool_invocation.tool_call_id in ids


def _calls(message: s.Message) -> Iterator[tuple[int, s.ToolInvocationPart]]:
    for place, part in enumerate(message.content.parts):
        if isinstance(part, s.ToolInvocationPart):
            yield place, part


def _with_parts(message: s.Message, parts: Iterable[s.MessagePart]) -> s.Message:
    return replace(message, content=replace(message.content, parts=tuple(parts)))
