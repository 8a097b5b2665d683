import pytest

from tenuto.core.payloads import Usage
from tenuto.models.catalogue import ModelInfo, Price, Tier, find_model, priced


def cost(price, **usage):
    return priced(Usage(**usage), ModelInfo(id="m", price=price)).cost


PLAIN = Price(input=2, output=10)
FULL = Price(input=2, output=10, cached=0.2, cache_write=2.5, reasoning=40)
TIERED = Price(input=2, output=10, tiers=(Tier(above=100, input=4, output=20), Tier(above=200, input=8, output=40)))


@pytest.mark.parametrize(
    ("price", "usage", "dollars"),
    [
        (PLAIN, {"input_tokens": 1_000_000, "output_tokens": 0}, 2),
        (PLAIN, {"input_tokens": 0, "output_tokens": 1_000_000}, 10),
        (PLAIN, {"input_tokens": 100, "output_tokens": 10}, 0.0003),
        # without rates of their own, cached input is input and reasoning is output
        (PLAIN, {"input_tokens": 100, "output_tokens": 10, "cached_input_tokens": 90, "reasoning_tokens": 9}, 0.0003),
        # input includes what was read from the cache and what was written to it
        (FULL, {"input_tokens": 100, "output_tokens": 0, "cached_input_tokens": 90}, (10 * 2 + 90 * 0.2) / 1e6),
        (
            FULL,
            {
                "input_tokens": 100,
                "output_tokens": 0,
                "cached_input_tokens": 60,
                "cache_creation_input_tokens": 30,
            },
            (10 * 2 + 60 * 0.2 + 30 * 2.5) / 1e6,
        ),
        # an hour in the cache costs twice the input
        (
            FULL,
            {
                "input_tokens": 100,
                "output_tokens": 0,
                "cache_creation_input_tokens": 30,
                "cache_creation_input_tokens_1h": 20,
            },
            (70 * 2 + 10 * 2.5 + 20 * 4) / 1e6,
        ),
        # output includes reasoning
        (FULL, {"input_tokens": 0, "output_tokens": 10, "reasoning_tokens": 4}, (6 * 10 + 4 * 40) / 1e6),
        # a provider that reports more parts than the whole
        (FULL, {"input_tokens": 10, "output_tokens": 5, "cached_input_tokens": 20}, (20 * 0.2 + 5 * 10) / 1e6),
        (FULL, {"input_tokens": 0, "output_tokens": 5, "reasoning_tokens": 9}, 5 * 40 / 1e6),
        # the rates of a tier are those of the whole request
        (TIERED, {"input_tokens": 100, "output_tokens": 1}, (100 * 2 + 10) / 1e6),
        (TIERED, {"input_tokens": 101, "output_tokens": 1}, (101 * 4 + 20) / 1e6),
        (TIERED, {"input_tokens": 999, "output_tokens": 1}, (999 * 8 + 40) / 1e6),
        (Price(input=0, output=0), {"input_tokens": 5, "output_tokens": 5}, 0),
    ],
)
def test_the_arithmetic(price, usage, dollars):
    assert cost(price, **usage) == pytest.approx(dollars, rel=1e-9)


def test_what_is_not_known_is_none():
    usage = Usage(10, 10, 20)
    assert priced(usage, None) is usage
    assert priced(usage, ModelInfo(id="m")) is usage
    assert priced(Usage(), ModelInfo(id="m", price=PLAIN)).cost is None


def test_a_row_of_the_snapshot():
    info = find_model("anthropic", "claude-sonnet-4-5")
    assert priced(Usage(1_000, 100, 1_100, cached_input_tokens=500), info).cost == pytest.approx(
        (500 * 3 + 500 * 0.3 + 100 * 15) / 1e6
    )


@pytest.mark.parametrize(
    ("first", "second", "dollars"),
    [
        (Usage(), Usage(1, 1, 2, cost=0.5), 0.5),
        (Usage(1, 1, 2, cost=0.25), Usage(1, 1, 2, cost=0.5), 0.75),
        (Usage(1, 1, 2, cost=0.25), Usage(), 0.25),
        (Usage(1, 1, 2, cost=0.25), Usage(1, 1, 2), None),
        (Usage(1, 1, 2), Usage(1, 1, 2, cost=0.25), None),
        (Usage(1, 1, 2), Usage(1, 1, 2), None),
        (Usage(), Usage(), None),
        (Usage(1, 1, 2, cost=0.1), Usage(1, 1, 2, cost=0.2), 0.3),
    ],
)
def test_a_sum_is_known_when_all_of_it_is(first, second, dollars):
    assert (first + second).cost == dollars
