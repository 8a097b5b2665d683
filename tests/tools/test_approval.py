"""Whether a call has to be approved: any level can ask for it, and whatever goes wrong asks for it."""

import itertools
import logging
from decimal import Decimal

import pytest

from tenuto.core.errors import RunError
from tenuto.core.request_context import RequestContext
from tenuto.tools import ApprovalRequest, tool
from tenuto.tools.approval import needs_approval, validate_edited

REQUEST = RequestContext({"plan": "free"})


def paying(require_approval=False):
    @tool(require_approval=require_approval)
    async def pay(amount: Decimal, note: str = "none") -> None:
        raise AssertionError

    return pay


async def ask(own=False, args=None, run=False, agent=False, name=None):
    given = {"amount": 5} if args is None else args
    return await needs_approval(paying(own), given, run_policy=run, agent_policy=agent, request=REQUEST, name=name)


async def later_no(_):
    return False


async def later_yes(_):
    return True


NO = [False, lambda _: False, later_no]
YES = [True, lambda _: True, later_yes]


async def test_one_level_is_enough():
    for levels in itertools.product([*NO, *YES], repeat=3):
        run, agent, own = levels
        assert await ask(own, run=run, agent=agent) is any(level in YES for level in levels)
    assert await ask(run=None, agent=None) is False


async def test_what_a_policy_is_asked():
    seen = []

    def note(given):
        seen.append(given)
        return False

    assert await ask(note, {"amount": "150.50"}, run=note, agent=note, name="money") is False
    args = {"amount": Decimal("150.50"), "note": "none"}
    assert seen == [ApprovalRequest("money", args, REQUEST), ApprovalRequest("money", args, REQUEST), args]
    assert type(seen[2]) is dict


async def test_a_policy_of_the_arguments():
    def expensive(args):
        return args["amount"] > 100

    assert await ask(expensive, {"amount": "100"}) is False
    assert await ask(expensive, {"amount": "100.01"}) is True


async def test_no_policy_is_asked_twice_or_in_vain():
    calls = []

    def yes(_):
        calls.append("yes")
        return True

    assert await ask(yes, run=True)
    assert calls == []
    assert await ask(yes, run=yes, agent=yes)
    assert calls == ["yes"]


async def test_what_one_policy_does_to_the_arguments_no_other_sees():
    seen = []

    def spoils(request):
        request.args.clear()
        return False

    def own(args):
        seen.append(args)
        return False

    await ask(own, run=spoils, agent=spoils)
    assert seen == [{"amount": 5, "note": "none"}]


def raises(_):
    raise RuntimeError("policy server down")


async def raises_later(_):
    raise KeyError("amount")


@pytest.mark.parametrize("place", ["own", "run", "agent"])
@pytest.mark.parametrize("policy", [raises, raises_later, lambda _: None, lambda _: 0, lambda _: "no", lambda: False])
async def test_a_policy_that_gives_no_answer_means_approve_first(policy, place, caplog):
    with caplog.at_level(logging.ERROR, "tenuto"):
        assert await ask(**{place: policy}) is True
    assert "'pay'" in caplog.text


@pytest.mark.parametrize("policy", ["always", 1, 0, object()])
async def test_something_that_is_no_policy_means_approve_first(policy, caplog):
    assert await ask(run=policy) is True
    assert "'pay'" in caplog.text


async def test_arguments_that_do_not_fit_are_shown_to_no_policy():
    def never(_):
        raise AssertionError

    for args in ({"amount": "much"}, "{", {"amount": 1, "x": 2}):
        assert await ask(never, args) is True
        assert await ask(run=never, args=args) is True
        assert await ask(args=args) is False  # nobody asks; `run_tool` refuses it


async def test_edited_arguments_are_validated_and_come_back_as_json():
    made = paying()
    assert validate_edited(made, {"amount": Decimal("1.50")}) == {"amount": "1.50"}
    assert validate_edited(made, '{"amount": 3}') == {"amount": 3}
    for wrong in ({"amount": "much"}, {"amount": 1, "extra": 1}, {}, [1], 3, "{", {"amount": object()}):
        with pytest.raises(RunError, match="the call still waits") as raised:
            validate_edited(made, wrong)
        assert raised.value.id == "AGENT_RESUME_INVALID_DATA"
    with pytest.raises(RunError, match=r"arguments of tool 'money' do not fit its schema.*\n- amount: "):
        validate_edited(made, {"amount": "much"}, name="money")
