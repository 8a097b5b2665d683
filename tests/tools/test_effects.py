"""What is one effect, and what becomes of a call whose outcome nobody stored."""

import asyncio
import logging
from decimal import Decimal
from hashlib import sha256

import msgspec
import pytest

from tenuto.core.errors import RunError, ToolError
from tenuto.tools import Applied, NotApplied, ToolContext, Unknown, tool
from tenuto.tools.effects import (
    SETTLE_SCHEMA,
    args_hash,
    call_key,
    effect_key,
    read_settlement,
    settle,
    unknown_after_restart,
    unknown_before,
)
from tenuto.tools.json_schema import problem
from tenuto.tools.outcome import UnknownOutcome
from tenuto.tools.validate import bind_arguments


def refunding(**options):
    @tool(key=("order_id", "amount"), **options)
    async def refund(ctx: ToolContext, order_id: str, amount: Decimal = 10, note: str = "") -> None: ...

    return refund


def key(made, args, scope="r1"):
    return effect_key(made, bind_arguments(made.id, made.schema, args), scope)


def test_a_call_key_is_of_its_place():
    assert call_key("r", 1, 0) == call_key("r", 1, 0)
    places = [("r", 1, 0), ("r", 1, 1), ("r", 2, 0), ("s", 1, 0), ("r", 11, 0), ("r1", 1, 0)]
    assert len({call_key(*place) for place in places}) == len(places)


def test_an_effect_key_is_of_the_named_values_as_validated():
    made = refunding()
    assert len(
        {
            key(made, {"order_id": "A", "amount": 10, "note": "a"}),
            key(made, {"order_id": "A", "amount": "10.00"}),
            key(made, {"amount": 10.0, "order_id": "A", "note": "b"}),
            key(made, {"order_id": "A"}),  # the default is the same value
            key(made, '{"order_id": "A", "amount": 1e1}'),
        }
    ) == 1  # fmt: skip
    assert key(made, {"order_id": "A", "amount": 11}) != key(made, {"order_id": "A"})
    assert key(made, {"order_id": "B"}) != key(made, {"order_id": "A"})


def test_an_effect_key_is_of_scope_and_tool():
    args = {"order_id": "A"}
    keys = {
        key(refunding(), args),
        key(refunding(), args, "r2"),
        key(refunding(key_scope="thread"), args),
        key(refunding(key_scope="resource"), args),
        key(refunding(id="other"), args),
    }
    assert len(keys) == 5
    assert key(refunding(), args) == key(refunding(effects="idempotent", title="x"), args)


def test_an_empty_key_makes_all_calls_one():
    @tool(key=(), key_scope="thread")
    async def welcome(name: str) -> None: ...

    assert key(welcome, {"name": "a"}) == key(welcome, {"name": "b"})


def test_keys_stay_what_they_are():
    # Stored in ledgers: a change here makes a paid effect look new.
    effect = b'["effect","run","run_1","refund",{"amount":125e-1,"order_id":"A-17"}]'
    assert call_key("run_1", 1, 0) == sha256(b'["call","run_1",1,0]').hexdigest()
    assert key(refunding(), {"order_id": "A-17", "amount": "12.50"}, "run_1") == sha256(effect).hexdigest()
    args = {"order_id": "A-17", "amount": 1.5}
    assert args_hash("refund", args) == sha256(b'["refund",{"amount":1.5,"order_id":"A-17"}]').hexdigest()


def test_a_value_without_a_text_is_refused_before_anything_runs():
    @tool(key=("x",))
    async def odd(x: object = object()) -> None: ...

    with pytest.raises(ToolError) as raised:
        key(odd, {})
    assert raised.value.id == "TOOL_KEY_UNUSABLE"


def test_a_decision_is_bound_to_tool_and_arguments():
    args = {"a": 1, "b": [1, {"c": "x", "d": None}]}
    again = msgspec.json.decode(msgspec.json.encode({"b": [1, {"d": None, "c": "x"}], "a": 1}))
    assert args_hash("t", args) == args_hash("t", again)
    others = [("u", args), ("t", {**args, "a": 2}), ("t", {**args, "a": "1"}), ("t", {}), ("t", None), ("t", '{"a"')]
    assert len({args_hash(*other) for other in [("t", args), *others]}) == len(others) + 1


def paying(reconcile, **options):
    @tool(reconcile=reconcile, **options)
    async def pay(ctx: ToolContext, order: str = "A") -> None:
        raise AssertionError

    return pay


async def asked(reconcile, args=None, **options):
    return await settle(paying(reconcile, **options), ToolContext(idempotency_key="k", attempt=1), args)


ANSWERS = [
    (Applied({"id": 1}), Applied({"id": 1})),
    (Applied(Decimal("1.5")), Applied("1.5")),
    (NotApplied(), NotApplied()),
    (Unknown(), Unknown()),
]


@pytest.mark.parametrize(("answer", "settled"), ANSWERS)
async def test_reconcile_answers_sync_or_async(answer, settled):
    async def later(ctx):
        await asyncio.sleep(0)
        return answer

    assert await asked(later) == settled
    assert await asked(lambda ctx: answer) == settled
    assert await asked(lambda ctx: later(ctx)) == settled  # noqa: PLW0108 - a function that is not async


async def test_reconcile_sees_the_call():
    seen = []

    def look(ctx):
        seen.append((ctx.idempotency_key, dict(ctx.args)))
        return NotApplied()

    await asked(look, {"order": "B"})
    await asked(look, '{"order": "C"}')
    await asked(look, {"order": 3, "x": 1})  # the schema has changed since
    assert seen == [("k", {"order": "B"}), ("k", {"order": "C"}), ("k", {})]


async def test_without_reconcile_nothing_is_known():
    assert await asked(None) == Unknown()


def raises(error):
    def reconcile(ctx):
        raise error

    return reconcile


class Odd(BaseException):
    pass


async def suspends(ctx):
    await ctx.suspend("who knows")


@pytest.mark.parametrize(
    ("reconcile", "said"),
    [
        (raises(ValueError("down")), "failed"),
        (raises(Odd()), "failed"),
        (suspends, "failed"),
        (lambda ctx: None, "returned None"),
        (lambda ctx: True, "returned True"),
        (lambda ctx: NotApplied, "returned <class"),
        (lambda ctx: Applied(object()), "JSON cannot hold"),
    ],
)
async def test_what_is_no_answer_settles_nothing_and_is_logged(reconcile, said, caplog):
    with caplog.at_level(logging.ERROR, "tenuto"):
        assert await asked(reconcile) == Unknown()
    assert "'pay'" in caplog.text
    assert said in caplog.text


async def test_reconcile_may_take_as_long_as_the_tool(caplog):
    async def hangs(ctx):
        await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR, "tenuto"):
        assert await asked(hangs, timeout=0.001) == Unknown()
    assert "took over 0.001 s" in caplog.text
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cancelled_settlement_leaves_no_task():
    started = asyncio.Event()

    async def hangs(ctx):
        started.set()
        await asyncio.Event().wait()

    settling = asyncio.ensure_future(asked(hangs))
    await started.wait()
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_what_the_model_is_told():
    after, before = unknown_after_restart("pay"), unknown_before("pay")
    for outcome in (after, before):
        assert isinstance(outcome, UnknownOutcome)
        assert outcome.error.id == "TOOL_OUTCOME_UNKNOWN"
        assert "may have taken effect" in outcome.text
        assert "find out before you call it again" in outcome.text
    assert "unknown after a restart" in after.text
    assert "was not called" in before.text


def test_what_a_person_answers():
    assert problem(SETTLE_SCHEMA) is None
    assert read_settlement({"outcome": "applied", "result": [1]}) == Applied([1])
    assert read_settlement({"outcome": "applied"}) == Applied()
    assert read_settlement({"outcome": "not-applied"}) == NotApplied()
    assert read_settlement({"outcome": "unknown"}) == Unknown()
    for wrong in (None, {}, {"approved": True}, {"outcome": "maybe"}, "applied"):
        with pytest.raises(RunError) as raised:
            read_settlement(wrong)
        assert raised.value.id == "AGENT_RESUME_INVALID_DATA"
