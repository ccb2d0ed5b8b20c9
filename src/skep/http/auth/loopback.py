"""Which addresses only this machine can reach."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether nobody else can reach ``host``; what is not certain can be reached."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
