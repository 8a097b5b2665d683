r"""The rules that come with tenuto: personal data, secrets, links.

Invariant: each reads a text once. Nothing in a pattern repeats a repetition whose pieces could be divided in more than
one way, each begins where a word begins, and classes are ASCII (`[0-9]`, never `\d`, which takes digits of any script).

Source: RFC 5321 and 3986 for addresses and links; the published key formats of AWS, Anthropic, GitHub, GitLab, Google,
Hugging Face, npm, OpenAI, PyPI, SendGrid, Slack and Stripe; RFC 7519 (JWT), 7468 (PEM), 9562 (UUID).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tenuto.builtin_processors import checks
from tenuto.builtin_processors.rules import RegexRule

_WORD = "A-Za-z0-9"
"""What a value is no part of when it stands beside it. An underscore may as well be Markdown."""

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"


def _after(labels: tuple[str, ...], ends: tuple[str, ...]) -> str:
    """Looks back at one of `labels` followed by one of `ends`, in any case."""
    return f"(?:{'|'.join(f'(?<=(?i:{label}{end}))' for label, end in product(labels, ends))})"


EMAIL = RegexRule(
    "email",
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,256}@(?:[A-Za-z0-9-]{1,63}\.){1,16}[A-Za-z]{2,63}(?![A-Za-z0-9-])",
    characters=r"[A-Za-z0-9._%+@-]",
)
PHONE = RegexRule(
    "phone",
    rf"(?<![{_WORD}+])(?:"
    r"\+[1-9](?:[ .()-]{0,2}[0-9]){7,14}"
    r"|(?:\+?1[ .-]?)?(?:\([2-9][0-9]{2}\)|[2-9][0-9]{2})[ .-]?[0-9]{3}[ .-]?[0-9]{4}"
    rf")(?![{_WORD}])",
    characters=r"[0-9+ .()-]",
    length_of=checks.phone_number,
    kept=4,
)
SSN = RegexRule(
    "ssn",
    rf"(?<![{_WORD}-])(?!000|666|9)[0-9]{{3}}([- ])(?!00)[0-9]{{2}}\1(?!0000)[0-9]{{4}}(?![{_WORD}-])",
    characters=r"[0-9 -]",
    kept=4,
)
CREDIT_CARD = RegexRule(
    "credit-card",
    rf"(?<![{_WORD}])(?:"
    r"[0-9]{4}([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{4}"
    r"|3[47][0-9]{2}([ -]?)[0-9]{6}\2[0-9]{5}"
    rf"|[0-9]{{13,19}})(?![{_WORD}])",
    characters=r"[0-9 -]",
    length_of=checks.card_number,
    kept=4,
)
IP_ADDRESS = RegexRule(
    "ip-address",
    rf"(?<![{_WORD}.])(?:{_OCTET}\.){{3}}{_OCTET}(?![{_WORD}])(?!\.[0-9])",
    characters=r"[0-9.]",
)
IPV6_ADDRESS = RegexRule(
    "ip-address",
    rf"(?<![{_WORD}:.])[0-9A-Fa-f]{{0,4}}(?::[0-9A-Fa-f]{{0,4}}){{2,7}}(?![{_WORD}:])",
    characters=r"[0-9A-Fa-f:]",
    length_of=checks.ipv6_address,
)
DATE_OF_BIRTH = RegexRule(
    "date-of-birth",
    "(?=[0-9])"  # first, for it is seldom so
    + _after(
        ("born", "born on", "dob", "birthday", "birthdate", "birth date", "date of birth", "geboren am", "né le"),
        (" ", ": ", ":", " is ", " = ", "="),
    )
    + r"(?:[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2}))(?![0-9])",
    characters=r"[0-9/.-]",
)
UUID = RegexRule(
    "uuid",
    rf"(?<![{_WORD}-])[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}(?![{_WORD}-])",
    characters=r"[0-9A-Fa-f-]",
)
CRYPTO_WALLET = RegexRule(
    "crypto-wallet",
    rf"(?<![{_WORD}])(?:0x[0-9A-Fa-f]{{40}}|bc1[a-z0-9]{{25,62}}|[13][1-9A-HJ-NP-Za-km-z]{{25,34}})(?![{_WORD}])",
    characters=r"[A-Za-z0-9]",
    length_of=checks.token,
)
IBAN = RegexRule(
    "iban",
    rf"(?<![{_WORD}])[A-Z]{{2}}[0-9]{{2}}(?: ?[A-Z0-9]){{11,30}}",
    characters=r"[A-Z0-9 ]",
    length_of=checks.iban,
    kept=4,
)
URL = RegexRule(
    "url",
    rf"""(?<![{_WORD}])(?i:https?)://[^\s<>"'`]+(?<![.,;:!?)\]}}])""",
    characters=r"""[^\s<>"'`]""",
)
AWS_KEY = RegexRule("aws-key", rf"(?<![{_WORD}])A(?:KI|SI)A[0-9A-Z]{{16}}(?![{_WORD}])", characters=r"[0-9A-Z]")
API_KEY = RegexRule(
    "api-key",
    rf"(?<![{_WORD}-])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{16,}|SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r")",
    characters=r"[A-Za-z0-9_.-]",
)
BEARER_TOKEN = RegexRule(
    "bearer-token",
    r"(?<=(?i:bearer) )[A-Za-z0-9._~+/=-]{8,}",
    characters=r"[A-Za-z0-9._~+/=-]",
    length_of=checks.token,
)
ASSIGNED_SECRET = RegexRule(
    "secret",
    r"""(?:(?<=[:=])|(?<=[:=][ "'])|(?<=[:=] ["']))"""  # first, for it is seldom so
    + _after(
        ("api_key", "api-key", "apikey", "secret", "secret_key", "token", "password", "passwd"),
        (":", "=", ": ", "= ", " = ", '":"', '": "', '="', '= "', "='", "': '", "= '", ' = "', " = '", ': "', ": '"),
    )
    + r"""(?!\*)[^\s"'<>,;()\[\]{}]{6,}""",
    characters=r"""[^\s"'<>,;()\[\]{}]""",
)
PRIVATE_KEY = RegexRule(
    "private-key",
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    characters=r"[A-Z -]",  # of its beginning: it goes on to its end, or to that of the text
)

PERSONAL: Mapping[str, tuple[RegexRule, ...]] = {
    "email": (EMAIL,),
    "phone": (PHONE,),
    "credit-card": (CREDIT_CARD,),
    "ssn": (SSN,),
    "api-key": (API_KEY, AWS_KEY, PRIVATE_KEY),
    "ip-address": (IP_ADDRESS, IPV6_ADDRESS),
    "date-of-birth": (DATE_OF_BIRTH,),
    "url": (URL,),
    "uuid": (UUID,),
    "crypto-wallet": (CRYPTO_WALLET,),
    "iban": (IBAN,),
}
"""The kinds of personal data that have rules."""

PRESETS: Mapping[str, tuple[RegexRule, ...]] = {
    "pii": (EMAIL, PHONE, SSN, CREDIT_CARD),
    "secrets": (API_KEY, BEARER_TOKEN, AWS_KEY, PRIVATE_KEY, ASSIGNED_SECRET),
    "urls": (URL,),
}
"""What `RegexFilterProcessor(presets=...)` knows."""
