"""Texts as words, in any script."""

import pytest

from tenuto.evals.words import dice, keywords, stem, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Don't re-order A-17!", ["don't", "re-order", "a-17"]),
        ("\uff21\uff22\uff23 café cafe\u0301", ["abc", "café", "café"]),
        ("日本語テスト", ["日本", "本語", "語テ", "テス", "スト"]),
        ("水", ["水"]),
        ("Python版3.11", ["python", "3.11", "版"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Straße", ["strasse"]),
        ("... --- ''", []),
        ("Babbage's Menabrea\u2019s it's", ["babbage", "menabrea", "it"]),
    ],
)
def test_words(text, found):
    assert words(text) == found


def test_keywords_are_different_words_that_say_something():
    assert keywords("What is the price, and the PRICE of it?") == ["price"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("refunds", "refunded"), ("cities", "city"), ("creating", "create"), ("costs", "cost"), ("houses", "house")],
)
def test_endings(one, other):
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["class", "bus", "is", "", "sing", "a-17"])
def test_what_is_no_ending(word):
    assert stem(word) == word


def test_dice_counts_pairs_as_often_as_they_occur():
    assert dice("aaaa", "aa") == pytest.approx(2 * 1 / (3 + 1))
    assert (dice("", ""), dice("a", "b"), dice("", "ab")) == (1, 0, 0)
