"""Addresses that only this machine can reach."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``; False if that is not certain."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
