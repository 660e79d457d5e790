"""One way each of getting all transfers of a service into Parquet; see ``load.py``.

``python contenders.py NAME FOLDER URL WORKERS`` does it and prints its peak memory in megabytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATH = "/v2/transfer/transfers"
QUERY = "limit=1000&order=ASC&order_by=CREATED_AT"


def pages(url: str) -> Iterator[bytes]:
    """Every page over one connection."""
    target = urlsplit(url)
    connection = HTTPConnection(str(target.hostname), target.port)
    cursor = ""
    while True:
        more = f"&page_cursor={cursor}" if cursor else ""
        connection.request("GET", f"{PATH}?{QUERY}{more}")
        body = connection.getresponse().read()
        yield body
        end = body.rindex(b'"next_page_cursor":') + len(b'"next_page_cursor":"')
        cursor = body[end:-2].decode()
        if not cursor:
            return


def download(folder: Path, url: str, workers: int) -> None:
    for _ in pages(url):
        pass


def requests(folder: Path, url: str, workers: int) -> None:
    """Download and throw away, as most Python programs do."""
    from requests import Session

    session, query = Session(), dict(pair.split("=") for pair in QUERY.split("&"))
    while True:
        body = session.get(url + PATH, params=query).content
        end = body.rindex(b'"next_page_cursor":') + len(b'"next_page_cursor":"')
        query["page_cursor"] = body[end:-2].decode()
        if not query["page_cursor"]:
            return


def requests_events(folder: Path, url: str, workers: int) -> None:
    """The same of events, which the service gives a hundred at a time at most."""
    from requests import Session

    session, query = Session(), {"limit": "100", "order": "ASC"}
    while True:
        body = session.get(f"{url}/v2/events", params=query).content
        end = body.rindex(b'"next_page_cursor":') + len(b'"next_page_cursor":"')
        query["page_cursor"] = body[end:-2].decode()
        if not query["page_cursor"]:
            return


def load_transfers(folder: Path, url: str, workers: int) -> None:
    import fundlab as fl

    client = fl.connect(base_url=url, auth_url=url, client_id="c", client_secret="s")
    fl.load_transfers(client, workers=workers, progress=False)


def load_events(folder: Path, url: str, workers: int) -> None:
    import fundlab as fl

    client = fl.connect(base_url=url, auth_url=url, client_id="c", client_secret="s")
    fl.load_events(client, workers=workers, progress=False)


def fundlab(folder: Path, url: str, workers: int) -> None:
    from fundlab import Store, connect

    client = connect(base_url=url, auth_url=url, client_id="c", client_secret="s")
    Store(folder / "store").sync(client, tables=["transfers"], workers=workers, progress=False)


def again(folder: Path, url: str, workers: int) -> None:
    """The command on what ``fundlab`` made; prints how long it waited for the service."""
    import os
    import time
    from contextlib import suppress

    from fundlab.cli import main as command
    from fundlab.client.client import Client

    waited, fetch_page = 0.0, Client.fetch_page

    def timed(self: Client, operation: str, params: Any) -> bytes:
        nonlocal waited
        started = time.perf_counter()
        try:
            return fetch_page(self, operation, params)
        finally:
            waited += time.perf_counter() - started

    Client.fetch_page = timed  # type: ignore[method-assign]
    os.environ |= {"FUNDLAB_BASE_URL": url, "FUNDLAB_AUTH_URL": url, "FUNDLAB_CLIENT_ID": "c",
                   "FUNDLAB_CLIENT_SECRET": "s"}  # fmt: skip
    sys.argv = ["fundlab", "sync", "transfers", "--store", str(folder / "store"), "--quiet"]
    with suppress(SystemExit):
        command()
    print(waited)


def normalize(folder: Path, url: str, workers: int) -> None:
    import pandas as pd

    frames = [pd.json_normalize(json.loads(body)["items"]) for body in pages(url)]
    pd.concat(frames).to_parquet(folder / "transfers.parquet")


def pydantic(folder: Path, url: str, workers: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fundlab.models import Transfer

    rows = [
        Transfer.model_validate(item).model_dump(mode="json")
        for body in pages(url)
        for item in json.loads(body)["items"]
    ]
    for row in rows:
        row["metadata"], row["auto_conversion"] = str(row["metadata"]), str(row["auto_conversion"])
    pq.write_table(pa.Table.from_pylist(rows), folder / "transfers.parquet")


def dlt(folder: Path, url: str, workers: int) -> None:
    """Its REST client, Parquet, no child tables, two processes to normalize."""
    import os

    os.environ.update(
        NORMALIZE__WORKERS="2",
        DATA_WRITER__BUFFER_MAX_ITEMS="50000",
        DATA_WRITER__FILE_MAX_ITEMS="50000",
        EXTRACT__WORKERS=str(workers),
        RUNTIME__DLTHUB_TELEMETRY="false",
        NORMALIZE__DATA_WRITER__DISABLE_COMPRESSION="true",
    )
    import dlt as tool
    from dlt.sources.helpers.rest_client import RESTClient
    from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator

    paginator = JSONResponseCursorPaginator(
        cursor_path="next_page_cursor", cursor_param="page_cursor"
    )
    client = RESTClient(base_url=url, paginator=paginator, data_selector="items")
    asked = dict(pair.split("=") for pair in QUERY.split("&"))

    @tool.resource(name="transfers", max_table_nesting=0, parallelized=True)
    def transfers() -> Iterator[object]:
        yield from client.paginate(PATH, params=asked)

    pipeline = tool.pipeline(
        "bench",
        pipelines_dir=str(folder / "pipelines"),
        destination=tool.destinations.filesystem(bucket_url=str(folder / "out")),
        dataset_name="bench",
    )
    pipeline.run(transfers(), loader_file_format="parquet")


def main(name: str, folder: str, url: str, workers: str) -> None:
    ways = {
        way.__name__: way
        for way in (download, requests, requests_events, fundlab, again, load_transfers,
                    load_events, normalize, pydantic, dlt)
    }  # fmt: skip
    ways[name](Path(folder), url, int(workers))
    print(peak_mb())


def peak_mb() -> float:
    """Of this process alone: the figure of getrusage includes who started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
