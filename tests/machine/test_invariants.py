"""Random runs: any legal outcome of any command, interleaved, with aborts, crashes and decisions at any time."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.core import codec
from tenuto.machine import commands as c
from tenuto.machine import records as r
from tenuto.machine.decisions import apply, fold, next_commands
from tenuto.machine.state import CLOSED, PENDING, RunState
from tests.machine import samples as s

MAX_CALLS = 3
TROUBLE = 4
"""How many crashes, and how many suspensions, one run meets at most."""


class Driver:
    """Does what the machine says, badly: the draws decide each outcome and what goes wrong."""

    def __init__(self, draw, max_steps):
        self.draw = draw
        self.max_steps = max_steps
        self.raw = []
        self.state = RunState()
        self.crashes = self.suspensions = TROUBLE
        self.commands = 0
        self.begun = Counter()
        self.outcomes = Counter()

    def maybe(self, odds=8):
        return self.draw(st.integers(0, odds - 1)) == odds - 1

    def one_of(self, *values):
        return self.draw(st.sampled_from(values))

    def add(self, record):
        before = self.state
        self.state = apply(before, record)
        self.raw.append(codec.encode(record))
        assert r.decode_record(self.raw[-1]) == record
        assert self.state.seq == before.seq + 1 == len(self.raw)
        self.check(before, record)

    def check(self, before, record):
        old = {call.id: call for call in before.calls}
        for call in self.state.calls:
            was = old.get(call.id)
            if was is not None and was.status in CLOSED:
                assert call == was
            elif call.status in CLOSED:
                self.outcomes[self.state.step, call.id] += 1
        assert self.state.step <= self.state.max_steps
        assert self.state.step - before.step in {0, 1}
        if isinstance(record, r.ModelEnded):
            self.begun[record.step] += 1

    def run(self):
        self.add(s.run_started(self.max_steps))
        while self.state.phase != "done":
            commands = next_commands(self.state)
            assert next_commands(self.state) == commands
            assert self.state == fold(map(r.decode_record, self.raw))
            if commands:
                self.obey(commands)
            else:
                self.unpark()

    def obey(self, commands):
        self.commands += len(commands)
        aborted = self.state.aborted
        for command in commands:
            assert not aborted or isinstance(command, c.Finalise | c.Finish)
            self.check_command(command)
        under_way = [self.outcome(command) for command in commands]
        while under_way:
            if self.crashes and self.maybe(20):
                self.crashes -= 1
                self.state = fold(map(r.decode_record, self.raw))
                return
            if self.maybe(30) and self.state.phase not in {"new", "done"}:
                self.add(s.aborted())
            if self.maybe() and self.state.phase == "calling":
                self.decide()
            chosen = under_way[self.draw(st.integers(0, len(under_way) - 1))]
            record = next(chosen, None)
            if record is None or (self.state.aborted and isinstance(record, r.ModelStarted | r.ToolStarted)):
                under_way.remove(chosen)
            else:
                self.add(record)

    def check_command(self, command):
        match command:
            case c.CallModel():
                assert command.step <= self.max_steps
                assert command.step == self.state.step + (self.state.phase == "ready")
            case c.RunTool() | c.RefuseCall() | c.SettleUnknown():
                assert self.state.call(command.call_id).status not in CLOSED | PENDING
            case c.AssessCalls() | c.Park():
                assert all(self.state.call(each).status not in CLOSED for each in command.call_ids)
            case _:
                pass

    def outcome(self, command):  # noqa: C901 - one row per command
        """The records a command leads to, one by one; each may be the last before a crash."""
        match command:
            case c.Prepare():
                yield s.prepared()
            case c.CallModel(step, attempt):
                yield s.model_started(step, attempt)
                yield from self.answer(step, attempt)
            case c.AssessCalls(call_ids):
                yield s.assessed(**{each: self.one_of("run", "run", "ask", "refuse", "client") for each in call_ids})
            case c.RunTool(call_id, attempt):
                yield s.tool_started(call_id, attempt)
                yield s.tool_ended(call_id, attempt, self.tool_end())
            case c.SettleUnknown(call_id, attempt):
                again = self.maybe(2)
                if again:
                    yield s.tool_started(call_id, attempt + 1)
                yield s.tool_ended(call_id, attempt + again, self.tool_end())
            case c.RefuseCall(call_id):
                refused = self.state.call(call_id).status == "refused"
                yield s.tool_ended(call_id, 0, "failed" if refused else "denied")
            case c.Park(call_ids):
                if {call.id for call in self.state.open_calls if call.status in PENDING} == set(call_ids):
                    yield s.parked(*call_ids)
            case c.JudgeStep(step):
                go_on = step < self.max_steps and not self.maybe(4)
                yield s.judged(step, go_on=go_on, reason="tool-calls" if go_on else "stop")
            case c.Finalise(reason):
                yield s.finalised(reason)
            case c.Finish():
                yield r.Finished()

    def answer(self, step, attempt):
        if self.maybe():
            yield s.model_failed(step, attempt)
        else:
            calls = [f"c{n}" for n in range(self.draw(st.integers(0, MAX_CALLS)))]
            yield s.model_ended(*calls, step=step, attempt=attempt)

    def tool_end(self):
        if self.suspensions and self.maybe(2):
            self.suspensions -= 1
            return "suspended"
        return self.one_of("ok", "failed", "unknown")

    def decide(self):
        waiting = [call.id for call in self.state.calls if call.status in PENDING]
        if waiting:
            self.add(s.decision(self.one_of(*waiting), approved=not self.maybe(3)))

    def unpark(self):
        assert self.state.phase == "parked"
        assert {call.status for call in self.state.open_calls} <= PENDING
        if self.maybe():
            self.add(s.aborted())
        else:
            self.decide()
        assert next_commands(self.state)


@settings(max_examples=200)
@given(st.data(), st.integers(1, 3))
def test_whatever_happens_a_run_ends_with_each_call_answered_once(data, max_steps):
    driver = Driver(data.draw, max_steps)
    driver.run()
    assert driver.state == fold(map(r.decode_record, driver.raw))
    assert driver.state.open_calls == ()
    assert set(driver.outcomes.values()) <= {1}
    # A call: assess, run, settle or refuse, and park once for each time it may wait; a crash repeats one command.
    per_step = 2 + MAX_CALLS * 4
    assert driver.commands <= 3 + max_steps * per_step + TROUBLE * (MAX_CALLS + 2) * 2
    assert driver.begun == Counter(dict.fromkeys(range(1, len(driver.begun) + 1), 1))


@settings(max_examples=50)
@given(st.data(), st.integers(1, 3))
def test_every_prefix_of_a_journal_has_a_next_command(data, max_steps):
    driver = Driver(data.draw, max_steps)
    driver.run()
    records = list(map(r.decode_record, driver.raw))
    for length in range(1, len(records)):
        state = fold(records[:length])
        assert next_commands(state) or (state.phase == "parked" and not state.aborted)
