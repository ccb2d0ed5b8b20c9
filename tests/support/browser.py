"""A real browser, and a site of somebody else that it visits."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LOAD_SECONDS = 120


def visit(url: str, profile: Path) -> str:
    """Open a page in a new browser, let it load everything, and return what became of it."""
    browser = shutil.which("chromium")
    assert browser, "chromium is missing: `make tools` installs it"
    done = subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}"),
            *("--timeout=20000", "--dump-dom", url),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=LOAD_SECONDS,
        check=True,
    )
    return done.stdout


@contextmanager
def site(page: str) -> Iterator[str]:
    """Serve a page on a port of its own; another origin than every server's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
