"""How much of what a pattern found is really what it looks like: check digits, lengths, address syntax.

Invariant: each takes the text a pattern found and gives the length of its beginning that stands, 0 for none.

Source: ISO/IEC 7812-1 (Luhn), ISO 13616 (IBAN: lengths by country, mod 97), RFC 4291 (addresses).
"""

from __future__ import annotations

_IBAN_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 "
    "FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 "
    "LU20 LV21 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 "
    "SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
)
_IBAN = {entry[:2]: int(entry[2:]) for entry in _IBAN_LENGTHS.split()}


def card_number(text: str) -> int:
    """Digits with a correct check digit, not all the same."""
    digits = [int(char) for char in text if char.isdigit()]
    if len(set(digits)) == 1:
        return 0
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return 0 if (sum(digits[-1::-2]) + sum(doubled)) % 10 else len(text)


def iban(text: str) -> int:
    """An account number of its country's length, with correct check digits; what follows it is left alone."""
    length, kept, end = _IBAN.get(text[:2], 0), "", 0
    for at, char in enumerate(text):
        if char != " ":
            kept, end = kept + char, at + 1
        if len(kept) == length:
            break
    if not length or len(kept) != length or text[end : end + 1].isalnum():
        return 0
    number = "".join(str(int(char, 36)) for char in kept[4:] + kept[:4])
    return end if int(number) % 97 == 1 else 0


def ipv6_address(text: str) -> int:
    """An address with more to it than colons."""
    from ipaddress import IPv6Address

    if sum(char.isalnum() for char in text) < 4:
        return 0
    try:
        IPv6Address(text)
    except ValueError:
        return 0
    return len(text)


def token(text: str) -> int:
    """What was made by a machine: it has a digit, or is longer than words are."""
    return len(text) if len(text) > 24 or any(char.isdigit() for char in text) else 0


def phone_number(text: str) -> int:
    """As many digits as a number with its country has."""
    return len(text) if 8 <= sum(char.isdigit() for char in text) <= 15 else 0
