"""A program that reads mutated answers, one after another, and says of each what became of it.

Run with the path of its instructions (JSON). It is told the first trial and the number of trials;
each is one line: its outcome, its time, and the memory at its peak. It may be killed by a trial.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import scripted
from mutations import mutated, wired
from scripted import skipping

import fundlab as fl
from fundlab import Store
from fundlab.api.client import Client
from fundlab.errors import FundlabError
from fundlab.models import OPERATIONS
from fundlab.settings import Settings
from fundlab.tables import EXTRA, TABLES
from fundlab.values import Instant

HUNG_S = 60
REFUSALS = (400, 401, 403, 404, 409, 429, 500, 503)
HEALED_EVERY = 10


class Reader:
    def __init__(self, given: dict[str, Any], server: scripted.Scripted) -> None:
        self.given, self.server, self.folder = given, server, Path(given["folder"])
        settings = Settings.load(
            environ={}, base_url=server.url, auth_url=server.url, client_id="c", client_secret="s"
        )
        self.client = Client(settings, environment=skipping())

    def trial(self, number: int) -> tuple[str, str]:
        """What was read, and ``right``, the name of the error, or what is wrong."""
        chance = Random(f"{self.given['seed']} {number}")
        self.server.received.clear()
        if number % 2:
            return self.answer(chance)
        table = chance.choice(sorted(self.given["pages"]))
        return table, self.page(chance, table, number)

    # ------------------------------------------------------------------ answers

    def answer(self, chance: Random) -> tuple[str, str]:
        call = chance.choice(self.given["answers"])
        body, status = mutated(chance, call["body"].encode() or b"{}"), 200
        if chance.random() < 0.15:
            status = chance.choice(REFUSALS)
            problem = {"type": "about:blank", "title": "No", "status": status, "detail": "no"}
            problem["meta"] = {"existing": json.loads(call["body"] or "{}"), "available": "5"}
            body = mutated(chance, json.dumps(problem).encode())
        sent = wired(chance, status, body)
        self.server.script(self.closing(sent))
        name = call["operation"]
        try:
            found = getattr(self.client, name)(**call["arguments"])
            rows = list(found) if name.startswith("list_") else found
        except FundlabError as error:
            return name, checked(error)
        return name, "right" if is_what_was_sent(name, rows, body) else f"wrong: {body[:2000]!r}"

    @staticmethod
    def closing(sent: bytes) -> scripted.Answer:
        def send(connection: Any, _: scripted.Received) -> None:
            connection.sendall(sent)
            raise ConnectionAbortedError

        return send

    # ------------------------------------------------------------------ pages

    def page(self, chance: Random, table: str, number: int) -> str:
        first, second = self.given["pages"][table]
        body = mutated(chance, second.encode())
        sent = wired(chance, 200, body)

        def send(connection: Any, request: scripted.Received) -> None:
            if "page_cursor=" not in request.target:
                connection.sendall(scripted.answer(first.encode()))
                return
            connection.sendall(sent)
            raise ConnectionAbortedError

        self.server.script(send)
        store = Store(self.folder / str(number))
        try:
            store.sync(self.client, tables=[table], progress=False)
        except FundlabError as error:
            problem = self.nothing_kept(store, table)
            if problem is None and number % HEALED_EVERY == 0:
                problem = self.healed(store, table)
            return problem or checked(error)
        else:
            return different(store, table, first.encode(), body)
        finally:
            shutil.rmtree(store.path, ignore_errors=True)

    @staticmethod
    def nothing_kept(store: Store, table: str) -> str | None:
        published = list((store.path / table).glob("*.parquet"))
        if published or len(store.read(table)):
            return f"partial: {len(store.read(table))} rows"
        return None

    def healed(self, store: Store, table: str) -> str | None:
        """The next sync finds a sound service, and brings everything."""
        first, second = (page.encode() for page in self.given["pages"][table])

        def send(connection: Any, request: scripted.Received) -> None:
            later = "page_cursor=" in request.target
            connection.sendall(scripted.answer(second if later else first))

        self.server.script(send)
        store.sync(self.client, tables=[table], progress=False)
        found = different(store, table, first, second)
        return None if found == "right" else f"not healed: {found}"


def checked(error: FundlabError) -> str:
    """The error's name, if it is a line that says something."""
    text = str(error)
    return type(error).__name__ if text and "\n" not in text else f"shapeless: {error!r}"


def is_what_was_sent(name: str, found: Any, body: bytes) -> bool:
    """Whether a result is what stands in the body, as the json module reads it."""
    if found is None:
        return name == "initiate_sandbox_fiat_deposit"
    sent = json.loads(body)
    if isinstance(sent, dict) and isinstance(sent.get("meta"), dict):
        sent = sent["meta"]["existing"]  # a conflict, resolved
    if name == "create_orchestration_rule":
        sent = sent["rule"]
    if not name.startswith("list_"):
        return same(found.to_json(), sent)
    rows = {row["id"]: row for row in reversed(sent[OPERATIONS[name].items or ""])}
    return {row.id for row in found} == set(rows) and all(
        same(row.to_json(), rows[row.id]) for row in found
    )


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def different(store: Store, table: str, *pages: bytes) -> str:
    """``right``, or which member of a row is not in the table as the json module reads it."""
    items = TABLES[table].items or ""
    rows = [row for page in pages for row in json.loads(page)[items]]
    often = Counter(row["id"] for row in rows)
    found = {row["id"]: row for row in store.read_arrow(table).to_pylist()} if rows else {}
    if found.keys() != often.keys():
        return f"wrong: {len(found)} ids instead of {len(often)}"
    for row in rows:
        if often[row["id"]] == 1:
            for name, value in row.items():
                if not holds(found[row["id"]], table, name, value):
                    return f"wrong: {row['id']} {name} is {value!r}"
    return "right"


def holds(found: dict[str, Any], table: str, name: str, value: Any) -> bool:
    column = TABLES[table].column(name)
    if column is None or name == EXTRA:
        return same(json.loads(found[EXTRA] or "{}").get(name), value)
    kept = found[name]
    if value is None:
        return True  # may be filled by what is nested elsewhere
    if column.kind == "amount":
        return bool(kept == Decimal(value))
    if column.kind == "instant":
        return bool(kept.value == Instant.parse(value).ns)
    if column.kind == "json":
        return same(json.loads(kept), value)
    return bool(kept == value)


# ---------------------------------------------------------------------------- measuring


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Seconds, seconds of computing, and the peak of memory in MB, of what happens inside."""
    taken: dict[str, float] = {}
    Path("/proc/self/clear_refs").write_text("5")
    started, worked = time.monotonic(), time.process_time()
    yield taken
    taken["seconds"], taken["cpu"] = time.monotonic() - started, time.process_time() - worked
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    taken["mb"] = int(peak.split()[1]) / 1024


def main() -> None:
    warnings.simplefilter("ignore")
    given = json.loads(Path(sys.argv[1]).read_text())
    first, count = int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with scripted.running() as server:
        reader = Reader(given, server)
        assert fl.DecimalDtype
        for number in range(first, count):
            signal.setitimer(signal.ITIMER_REAL, HUNG_S)  # which ends the process
            with measured() as taken:
                try:
                    what, outcome = reader.trial(number)
                except Exception as error:  # noqa: BLE001 - the very thing that is looked for
                    what, outcome = "", f"unnamed: {error!r}"[:500]
            said = {"trial": number, "what": what, "outcome": outcome, **taken}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
