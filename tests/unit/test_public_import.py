"""What the SDK needs to be installed."""

import subprocess
import sys

SERVER_ONLY = ("cryptography", "httptools", "jwt", "prometheus_client", "rocksdict", "uvicorn")


def test_the_clients_need_httpx_and_msgspec_and_nothing_else() -> None:
    program = f"""
import sys
for name in {SERVER_ONLY}:
    sys.modules[name] = None
from skep import AsyncClient, Client
Client().close()
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
