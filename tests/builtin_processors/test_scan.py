"""What is found in a text, and that it makes no difference how the text came."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenuto.builtin_processors import patterns
from tenuto.builtin_processors.redaction import Redaction
from tenuto.builtin_processors.rules import RegexRule, read_rule
from tenuto.builtin_processors.scan import Scan, replaced
from tenuto.errors import ConfigurationError

ALL = {id(rule): rule for rules in (*patterns.PERSONAL.values(), *patterns.PRESETS.values()) for rule in rules}.values()
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nabc\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "email": ["ann@example.com", "a.b+c@mail.example.co.uk", "x@a-b.io"],
    "phone": ["555-123-4567", "+1 (555) 123-4567", "(555) 234-4567", "+44 20 7946 0958", "+861012345678", "5552344567"],
    "ssn": ["123-45-6789", "123 45 6789"],
    "credit-card": ["4111 1111 1111 1111", "4111111111111111", "3782 822463 10005", "5500-0000-0000-0004"],
    "ip-address": ["192.168.0.1", "255.255.255.255", "2001:db8::8a2e:370:7334", "fe80:0:0:0:1:2:3:4"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
    "crypto-wallet": ["0x52908400098527886E0F7030069857D2E4169EE7", "1BoatSLRHtKNngkdXEeobR76b53LETtpyT"],
    "url": ["https://example.com/a?b=c#d", "HTTP://example.com"],
    "aws-key": ["AKIAIOSFODNN7EXAMPLE"],
    "api-key": ["sk-abcdefghijklmnop1234", "ghp_abcdefghijklmnopqrst", "xoxb-1234567890-abc", "sk_live_abcdefghij12"],
    "private-key": [PEM],
}
BORN = "born on 1990-01-31"
BEARER = "Authorization: Bearer abc123def456"
PASSWORD = 'password: "hunter22"'


def names(text, rules=ALL):
    return [found.rule.name for found in replaced(text, rules, lambda found: found.rule.label)[1]]


@pytest.mark.parametrize(("name", "secret"), [(name, each) for name, known in SECRETS.items() for each in known])
@pytest.mark.parametrize("around", ["{}", "It is {}.", "({})", "\n{}\n", "é{}é", "Say: {}, then {}!"])
def test_what_is_found(name, secret, around):
    text = around.format(secret, secret)
    if name in {"email", "url"} and "é" in around:
        return  # letters of any script can belong to a link
    rules = [rule for rule in ALL if rule.name == name]
    shown, found = replaced(text, rules, lambda each: f"<{each.rule.name}>")
    assert shown == around.format(f"<{name}>", f"<{name}>")
    assert all(text[each.index : each.index + len(each.text)] == each.text == secret for each in found)


@pytest.mark.parametrize(
    ("text", "name", "secret"),
    [
        (BORN, "date-of-birth", "1990-01-31"),
        ("DOB: 31/01/90.", "date-of-birth", "31/01/90"),
        (BEARER, "bearer-token", "abc123def456"),
        (PASSWORD, "secret", "hunter22"),
        ("API_KEY=abcdef", "secret", "abcdef"),
        ("IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFFXXX", "iban", "DE89 3704 0044 0532 0130 00"),
        ("4111 1111 1111 1111 12", "credit-card", "4111 1111 1111 1111"),
        ("-----BEGIN PRIVATE KEY-----\nMII", "private-key", "-----BEGIN PRIVATE KEY-----\nMII"),
    ],
)
def test_what_is_found_by_what_stands_around_it(text, name, secret):
    _, found = replaced(text, ALL, lambda each: "")
    assert (name, secret) in [(each.rule.name, each.text) for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01", "12:30:45", "std::string", "10.000.000 people", "version 1.2.3", "4111 1111 1111 1112",
        "0000000000000000", "the bearer authentication", "id 1700000000", "a@b", "-----BEGIN CERTIFICATE-----\nx",
        "DE00 0000 0000 0000 0000 00", "1.2.3.4.5", "000-12-3456", "::", "x" * 40, "0.1234567890123",
    ],
)  # fmt: skip
def test_what_is_none(text):
    assert names(text) == []


RULES = [
    *ALL,
    RegexRule("case", r"\d{3}-\d{2}", characters="[0-9-]"),
    RegexRule("open", "<<.*>>"),
    RegexRule("empty", "q*"),
]
PIECE = st.one_of(
    st.text(max_size=8),
    st.text("0123456789-+. ()@abcdef:/", max_size=12),
    st.sampled_from(
        [*(each for known in SECRETS.values() for each in known), BORN, BEARER, PASSWORD, "<<a>>", "123-45"]
    ),
    st.sampled_from(["@", "-----BEGIN ", "PRIVATE KEY-----", "\ud800", "\n", " ", "<<", ">>", "Bearer ", "password="]),
)
TEXT = st.lists(PIECE, max_size=8).map("".join)


@st.composite
def divided(draw):
    text = draw(TEXT)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return text, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def through(pieces, rules):
    scan = Scan(tuple(rules), lambda found: f"<{found.rule.name}>")
    shown = [scan.feed(piece) for piece in pieces]
    return [*shown, scan.close()], scan.found


@pytest.mark.parametrize(
    "rules", [*([rule] for rule in RULES), list(ALL), [*patterns.PRESETS["pii"]]], ids=lambda rules: rules[0].name
)
@given(divided())
@example((PEM, list(PEM)))
@example(("a@b.co.uk", ["a@b.co", ".uk"]))
def test_however_a_text_is_cut_it_comes_out_the_same(rules, given_text):
    text, pieces = given_text
    whole, found = replaced(text, rules, lambda each: f"<{each.rule.name}>")
    shown, found_in_pieces = through(pieces, rules)
    assert "".join(shown) == whole
    assert found_in_pieces == found
    assert "".join(through(list(text), rules)[0]) == whole


@given(divided())
def test_what_was_shown_is_never_taken_back_and_holds_no_secret(given_text):
    text, pieces = given_text
    whole, _ = replaced(text, ALL, lambda each: "\0" * 3)
    scan = Scan(tuple(ALL), lambda each: "\0" * 3)
    shown = ""
    for piece in pieces:
        shown += scan.feed(piece)
        assert whole.startswith(shown)
    assert shown + scan.close() == whole


def redacted(text, method):
    redaction = Redaction(method)

    def replace(found):
        return redaction.of(found.rule.name, found.text, kept=found.rule.kept, label=found.rule.label)

    return replaced(text, ALL, replace)[0]


@pytest.mark.parametrize("method", ["hash", "placeholder"])
@given(st.lists(PIECE, max_size=8).map(" ".join))
def test_a_text_that_was_redacted_stays_as_it_is(method, text):
    once = redacted(text, method)
    assert redacted(once, method) == once


@given(st.lists(PIECE, max_size=8).map(" ".join))
@example("+1 (555) 123-4567 200.0000000")
def test_a_mask_is_only_ever_added_to(text):
    once = redacted(text, "mask")
    twice = redacted(once, "mask")
    assert all(after in {before, "*"} for before, after in zip(once, twice, strict=True))


@pytest.mark.parametrize(
    "number", ["555-234-5678", "(555) 234-5678", "+49 30 1234567", "4111 1111 1111 1111", "078-05-1120"]
)
@pytest.mark.parametrize(
    "around", ["* {}", "*{}*", "**{}**", "* **{}**", "** {}", "*: {}", "- {}", "`{}`", "_{}_", "__{}__"]
)
def test_a_number_is_found_in_whatever_markdown_it_stands(around, number):
    shown = redacted(around.format(number), "mask")
    assert shown == around.format(redacted(number, "mask"))
    assert shown != around.format(number)


@pytest.mark.parametrize("number", ["555-234-5678", "4111 1111 1111 1111", "078-05-1120", "+49 30 1234567"])
def test_what_a_mask_leaves_is_no_number(number):
    assert redacted(redacted(number, "mask"), "mask") == redacted(number, "mask")


def test_text_goes_on_as_soon_as_no_match_can_be_growing():
    scan = Scan(patterns.PRESETS["pii"], lambda found: found.rule.label)
    shown = [scan.feed(piece) for piece in ("Write to ", "ann", "@example", ".com", " or", " call", " now")]
    assert shown == ["Write to", "", "", "", " [EMAIL]", "", " or"] or "".join(shown).startswith("Write to [EMAIL] or")


def test_a_rule_without_characters_holds_the_text_until_its_end():
    scan = Scan([RegexRule("open", "<<.*>>")], lambda found: "-")
    assert [scan.feed("a <<b"), scan.feed(">> c"), scan.close()] == ["", "", "a - c"]


@pytest.mark.parametrize(
    "text",
    ["a" * 20_000, "1" * 20_000, "1 " * 10_000, "a@" * 10_000, "a." * 10_000, "-----BEGIN " * 2_000,
     "-----BEGIN PRIVATE KEY-----" + "A" * 20_000, "https://" + "a/" * 10_000, "A1 " * 6_000, "::" * 10_000,
     "password=" * 2_000, "x@" + "a." * 10_000, "+1 " * 6_000, "." * 20_000, "sk-" * 6_000, "eyJ" * 6_000],
    ids=lambda text: text[:12],
)  # fmt: skip
@pytest.mark.parametrize("size", [64, 20_000])
def test_a_long_text_is_looked_at_a_bounded_number_of_times(text, size, monkeypatch):
    """Each search begins where the last one ended, so what all searches were given adds up to a few times the text."""
    from tenuto.builtin_processors import scan as module

    given_text = [0]
    search = module._Finder._search

    def counted(self, all, at):
        given_text[0] += len(all) - at
        return search(self, all, at)

    monkeypatch.setattr(module._Finder, "_search", counted)
    scan = Scan(tuple(ALL), lambda found: "")
    for at in range(0, len(text), size):
        scan.feed(text[at : at + size])
    scan.close()
    assert given_text[0] <= 8 * len(tuple(ALL)) * len(text)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_no_pattern_can_divide_a_text_in_many_ways(rule):
    """A repetition without a bound repeats one class of characters: backtracking in it is a walk, not a tree."""
    from re import _constants, _parser

    def walk(tree, inside_repeat):
        for op, args in tree:
            if op in {_constants.MAX_REPEAT, _constants.MIN_REPEAT}:
                _, most, body = args
                if most > 300:
                    assert not inside_repeat
                    assert [kind for kind, _ in body] in ([_constants.IN], [_constants.NOT_LITERAL])
                walk(body, inside_repeat or most > 30)
            elif op is _constants.SUBPATTERN:
                walk(args[-1], inside_repeat)
            elif op is _constants.BRANCH:
                for branch in args[1]:
                    walk(branch, inside_repeat)
            elif op in {_constants.ASSERT, _constants.ASSERT_NOT}:
                walk(args[1], inside_repeat)

    walk(_parser.parse(rule.pattern), False)


@pytest.mark.parametrize(
    ("given_rule", "said"),
    [
        ("x", "is no rule"),
        ({"name": "x"}, "no pattern"),
        ({"name": "x", "pattern": "a", "patern": "b"}, "unknown key 'patern'"),
        (RegexRule("x", "("), "cannot be compiled"),
        (RegexRule("x", "a", characters="a"), "no class"),
        (RegexRule("x", "a", characters="[z-a]"), "cannot be compiled"),
    ],
)
def test_a_rule_that_is_none(given_rule, said):
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        read_rule(given_rule)


@pytest.mark.parametrize(
    ("method", "given_text", "kept", "expected"),
    [
        ("mask", "ann@example.com", 0, "***@*******.***"),
        ("mask", "123-45-6789", 4, "***-**-6789"),
        ("mask", "12", 4, "*2"),
        ("remove", "x", 0, ""),
        ("placeholder", "x", 0, "[IP_ADDRESS]"),
    ],
)
def test_what_stands_in_the_place_of_a_value(method, given_text, kept, expected):
    assert Redaction(method).of("ip-address", given_text, kept=kept) == expected


def test_a_hash_tells_equal_values_and_its_key_makes_it_another_s():
    plain, keyed = Redaction("hash"), Redaction("hash", hash_key=b"k")
    assert plain.of("phone", "1") == plain.of("phone", "1") != plain.of("phone", "2")
    assert keyed.of("phone", "1") != plain.of("phone", "1")
    assert re.fullmatch(r"\[phone#[a-p]{16}\]", plain.of("phone", "\ud800"))
    assert Redaction(preserve_format=False).of("phone", "1") == "********"
