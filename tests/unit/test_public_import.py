"""What the SDK and the command line need to be installed, and what they load."""

import subprocess
import sys

import pytest

SERVER_ONLY = (
    "cryptography",
    "httptools",
    "jwt",
    "prometheus_client",
    "rocksdict",
    "uvicorn",
    "uvloop",
)
OF_THE_SERVER = ("skep.core", "skep.embedded", "skep.http", "skep.store", *SERVER_ONLY)


def loaded(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint('\\n', *sys.modules, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines())


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


def test_what_nobody_asked_for_is_not_loaded() -> None:
    found = {name for name in loaded("import skep") if name.startswith("skep.")}

    assert found == set()


@pytest.mark.parametrize(
    "name", ["AsyncClient", "AsyncConsumer", "AsyncProducer", "AsyncWorker", "Client", "Worker"]
)
def test_a_client_loads_nothing_of_the_server(name: str) -> None:
    found = loaded(f"import skep; skep.{name}")

    assert found.isdisjoint(OF_THE_SERVER)


def test_a_server_that_never_sees_arrow_does_not_load_it() -> None:
    found = loaded("from skep.http.routes import all_routes; all_routes()")

    assert found.isdisjoint({"numpy", "pyarrow"})


def test_a_draft_loads_no_client() -> None:
    assert "httpx" not in loaded("import skep; skep.Draft")


def test_the_help_loads_neither_the_server_nor_a_client() -> None:
    found = loaded("""
import sys
from skep.cli import main
sys.argv = ["skep", "--help"]
try:
    main()
except SystemExit:
    pass
""")

    assert found.isdisjoint({*OF_THE_SERVER, "asyncio", "httpx", "rich"} - {"skep.http"})
