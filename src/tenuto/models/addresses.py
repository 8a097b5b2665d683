"""Which addresses a URL that somebody else wrote may lead to.

Invariant: a host's name is resolved here, once for each hop, and every address it has must be on the public internet;
what is connected to is one of the addresses that were checked. An address that carries another one inside (IPv4 in
IPv6, 6to4, NAT64, Teredo) is judged by that one too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""From a host and a port to the addresses in the order in which to try them; raises OSError when there are none."""

_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(ValueError):
    """A host that must not be asked; the message says why, without the address it has."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of `host` as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked(url: SplitResult, allowed: frozenset[str], resolver: Resolve) -> list[str]:
    """The addresses at which `url` may be asked.

    Args:
        url: With http or https, a host and a port.
        allowed: Hosts, or `host:port`, that may be private.
        resolver: Also resolves what only looks like a name, such as `2130706433` or `0x7f.1`.

    Raises:
        AddressRefused: One of them is not public.
        OSError: There is no such host.
    """
    host, port = (url.hostname or "").rstrip("."), url.port or (443 if url.scheme == "https" else 80)
    literal = _parsed(host)
    addresses = [literal] if literal is not None else [ip_address(each) for each in await resolver(host, port)]
    if not addresses:
        raise OSError("the name has no address")
    if host not in allowed and f"{host}:{port}" not in allowed and not all(map(is_public, addresses)):
        raise AddressRefused(f"{host} is not a public address")
    return [str(each) for each in addresses]


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, and so is each address inside it."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if inside := _inside(address):
        return all(map(is_public, inside))
    refused = address.is_multicast or address.is_reserved or address.is_site_local
    return address.is_global and not refused and address.scope_id is None


def _inside(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    return [IPv4Address(int(address) & 0xFFFFFFFF)] if address in _NAT64 else []


def _parsed(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
