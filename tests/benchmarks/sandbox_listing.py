"""How fast the sandbox lists transfers, beside a static file server that sends the same bytes.

Run ``python tests/benchmarks/sandbox_listing.py [TRANSFERS]``. Sandbox and file server are
processes of their own; one kept-alive connection to each asks in turn for the same pages of 1,000
rows. Prints transfers a second of both, and what page 900 (of 100 rows) costs as a multiple of
page 1 for several orders and filters. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

TRANSFERS = 200_000
ROWS_A_SECOND = 40_000
TIMES_PAGE_ONE = 1.5
LATE_PAGE = 900
PASSES = 5
REPEATS = 200
LIST = "/v2/transfer/transfers"
QUERIES = (
    "order=ASC", "order=DESC", "order=ASC&order_by=UPDATED_AT", "order=ASC&statuses=COMPLETED",
    "order=DESC&statuses=COMPLETED&order_by=UPDATED_AT",
)  # fmt: skip


class Connection:
    """One kept-alive connection."""

    def __init__(self, host: str, headers: dict[str, str]) -> None:
        self._http, self._headers = HTTPConnection(host, timeout=60), headers

    def get(self, path: str) -> bytes:
        self._http.request("GET", path, headers=self._headers)
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        return body


def main(transfers: int) -> int:
    with sandbox(transfers) as service, tempfile.TemporaryDirectory() as folder:
        paths = save_pages(service, Path(folder))
        with file_server(Path(folder)) as files:
            listing = compare_listing(service, files, paths, transfers)
        pages = compare_pages(service)
    missed = [name for name, reached in (listing | pages).items() if not reached]
    print(f"bars missed: {', '.join(missed)}" if missed else "all bars reached")
    return 1 if missed else 0


@contextmanager
def sandbox(transfers: int) -> Iterator[Connection]:
    command = ["sandbox", "--transfers", str(transfers), "--clock", "manual"]
    with running([sys.executable, "-m", "fundlab", *command]) as process:
        assert process.stdout is not None
        info: dict[str, Any] = json.loads(process.stdout.readline())
        host = info["base_url"].removeprefix("http://")
        form = (
            f"grant_type=client_credentials&client_id={info['client_id']}"
            f"&client_secret={info['client_secret']}"
        )
        http = HTTPConnection(host, timeout=60)
        content_type = {"Content-Type": "application/x-www-form-urlencoded"}
        http.request("POST", "/oauth2/token", form, content_type)
        token = json.loads(http.getresponse().read())["access_token"]
        yield Connection(host, {"Authorization": f"Bearer {token}"})


@contextmanager
def file_server(folder: Path) -> Iterator[Connection]:
    command = [
        sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1",
        "--protocol", "HTTP/1.1", "--directory", str(folder),
    ]  # fmt: skip
    with running(command) as process:
        assert process.stdout is not None
        port = process.stdout.readline().partition(" port ")[2].split(" ")[0]
        yield Connection(f"127.0.0.1:{port}", {})


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def save_pages(service: Connection, folder: Path) -> list[tuple[str, str]]:
    """Every page in a file: its path at the sandbox and at the file server."""
    paths: list[tuple[str, str]] = []
    cursor = ""
    while cursor or not paths:
        path = f"{LIST}?limit=1000&order=ASC" + (f"&page_cursor={cursor}" if cursor else "")
        page = service.get(path)
        name = f"{len(paths)}.json"
        (folder / name).write_bytes(page)
        paths.append((path, f"/{name}"))
        cursor = next_cursor(page)
    return paths


def next_cursor(page: bytes) -> str:
    return page.rpartition(b'"next_page_cursor":"')[2].removesuffix(b'"}').decode()


def compare_listing(
    service: Connection, files: Connection, paths: list[tuple[str, str]], transfers: int
) -> dict[str, bool]:
    times: dict[str, list[float]] = {"sandbox": [], "files": []}
    size = 0
    for _ in range(PASSES):
        for name, connection, place in (("sandbox", service, 0), ("files", files, 1)):
            start = time.perf_counter()
            size = sum(len(connection.get(path[place])) for path in paths)
            times[name].append(time.perf_counter() - start)
    rates = {name: transfers / median(seconds) for name, seconds in times.items()}
    print(f"{transfers:,} transfers in {len(paths)} pages, {size / 1e6:.0f} MB, one connection")
    for name, rate in rates.items():
        print(f"  {name:8}{rate:12,.0f} transfers/s {size / 1e6 * rate / transfers:8.0f} MB/s")
    print(
        f"  the sandbox takes {rates['files'] / rates['sandbox']:.1f} times the file server's time"
    )
    return {f"{ROWS_A_SECOND:,} transfers/s": rates["sandbox"] >= ROWS_A_SECOND}


def compare_pages(service: Connection) -> dict[str, bool]:
    print(f"page {LATE_PAGE} of 100 rows, as a multiple of page 1")
    reached = {}
    for query in QUERIES:
        first = f"{LIST}?limit=100&{query}"
        last = late_page(service, first)
        early_costs, late_costs = [], []
        for _ in range(REPEATS):
            for path, costs in ((first, early_costs), (last, late_costs)):
                start = time.perf_counter()
                service.get(path)
                costs.append(time.perf_counter() - start)
        early, late = (quantiles(costs, n=4)[0] for costs in (early_costs, late_costs))
        ratio = late / early
        print(f"  {query:52}{early * 1000:6.2f} ms{ratio:6.2f}")
        reached[f"page {LATE_PAGE} for {query}"] = ratio <= TIMES_PAGE_ONE
    return reached


def late_page(service: Connection, first: str) -> str:
    path = first
    for _ in range(LATE_PAGE - 1):
        path = f"{first}&page_cursor={next_cursor(service.get(path))}"
    return path


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TRANSFERS))
