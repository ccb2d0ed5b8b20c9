"""Payloads of 200 bytes of which no two are alike, for everybody who is measured.

Orders, because JSON that people queue has the same keys again and again; and random text, which
nothing can compress, to show what is left then.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

COUNT = 1000
_GOODS = ("tea-green", "tea-black", "rice-basmati", "salt-sea", "oil-olive", "pepper", "sugar-cane")


def _orders() -> list[str]:
    chance = random.Random(1)
    return [
        json.dumps(
            {
                "order": f"{chance.getrandbits(48):012x}",
                "customer": chance.randrange(100_000, 1_000_000),
                "placedAt": f"2026-11-15T09:26:{chance.random() * 60:09.6f}Z",
                "items": [
                    {
                        "sku": chance.choice(_GOODS),
                        "quantity": chance.randrange(1, 10),
                        "price": chance.randrange(100, 10_000) / 100,
                    }
                    for _ in range(2)
                ],
                "currency": "EUR",
            },
            separators=(",", ":"),
        )
        for _ in range(COUNT)
    ]


def _random_texts() -> list[str]:
    chance = random.Random(1)
    return [json.dumps({"text": chance.randbytes(94).hex()}) for _ in range(COUNT)]


ORDERS = _orders()
RANDOM_TEXTS = _random_texts()


@contextmanager
def in_file(payloads: list[str]) -> Iterator[str]:
    """The name of a file with a payload per line, for a program that is not ours."""
    with tempfile.NamedTemporaryFile("w", prefix="skep-bench-") as file:
        file.write("\n".join(payloads))
        file.flush()
        yield file.name
