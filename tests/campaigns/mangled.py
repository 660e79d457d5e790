"""Mutated answers, and a program that reads them, one after another, and says what became of each.

Run with the path of its instructions (JSON). It is told the first trial and the number of trials;
each is one line: its outcome, its time, and the memory at its peak. It may be killed by a trial.
"""

from __future__ import annotations

import copy
import gzip
import json
import resource
import shutil
import signal
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import scripted
from scripted import skipping

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import FundlabError
from fundlab.base.values import Instant
from fundlab.client.client import Client
from fundlab.models import OPERATIONS
from fundlab.settings.settings import Settings
from fundlab.tables import EXTRA, TABLES

AMOUNTS = (
    "1e5", "-1", "+1", "5.", "", " 1", "1\n", "NaN", "Infinity", "1,000", "0x10", "٣", "1_0",
    "9" * 21, "0." + "1" * 19, "9" * 65, 5, 0.1, 1e400, -0.0, 10**30, "9" * 20 + "." + "9" * 18,
    "0.000000000000000001", ".25", "007",
)  # fmt: skip
MOMENTS = (
    "now", "", "2026-03-01", "2026-03-01T00:00:00", "2026-02-30T00:00:00Z", "2026-03-01T24:00:00Z",
    "2026-03-01T00:00:60Z", "2026-03-01T00:00:00.1234567890Z", "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "1677-01-01T00:00:00Z", "2026-03-01T00:00:00+99:00", 0, 1e9,
    "2026-03-01t00:00:00z", "2026-03-01T00:00:00.000000001-23:59", "２０２６-03-01T00:00:00Z",
)  # fmt: skip
ANYTHING = (
    None, True, False, 0, -1, 2**63, 2**64, 1.5, 1e308, "", "x", "\x00", "\u202e", "\ud800",
    "é" * 50, "<script>", "=1+1", "' OR 1=1 --", "../../etc/passwd", [], {}, [[]], [{}], {"": {}},
    {"id": None}, ["x", 1, None], "x" * 10_000,
)  # fmt: skip
ENDS = (b"]", b"}", b"\x00", b"{}", b"nul", b"\xff", b"\xef\xbb\xbf", b"// end", b"," * 50)
DEEP = 60_000
MANY = 2_000
BOMB_BYTES = 300 * 2**20

Json = Any


def mutated(chance: Random, body: bytes) -> bytes:
    """``body`` with one to three things wrong; now and then with nothing wrong."""
    whole = json.loads(body)
    for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 3))):
        whole = chance.choice(IN_STRUCTURE)(chance, copy.deepcopy(whole))
    text = json.dumps(whole, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return chance.choice(IN_TEXT)(chance, text) if chance.random() < 0.4 else text


# ---------------------------------------------------------------------------- structure


def places(whole: Json) -> list[tuple[Any, Any]]:
    """Every container and key or position in it."""
    found, queue = [], [whole]
    while queue:
        one = queue.pop()
        inside = one.items() if isinstance(one, dict) else enumerate(one)
        for key, value in inside:
            found.append((one, key))
            if isinstance(value, dict | list):
                queue.append(value)
    return found


def at_some_place(change: Callable[[Random, Any, Any], None]) -> Callable[[Random, Json], Json]:
    def changed(chance: Random, whole: Json) -> Json:
        found = places(whole) if isinstance(whole, dict | list) else []
        if found:
            change(chance, *chance.choice(found))
        return whole

    return changed


def another_value(chance: Random, inside: Any, key: Any) -> None:
    name = key if isinstance(key, str) else ""
    if name in ("amount", "fee", "total", "available", "trading", "notional_value"):
        kinds: tuple[Any, ...] = (AMOUNTS, AMOUNTS, ANYTHING)
    elif name.endswith("_at"):
        kinds = (MOMENTS, MOMENTS, ANYTHING)
    else:
        kinds = (ANYTHING,)
    inside[key] = chance.choice(chance.choice(kinds))


def nothing_there(chance: Random, inside: Any, key: Any) -> None:
    del inside[key]


def another_name(chance: Random, inside: Any, key: Any) -> None:
    if isinstance(key, str):
        inside[chance.choice((key.upper(), key + " ", "", "__proto__", key[:-1]))] = inside.pop(key)


def one_more(chance: Random, inside: Any, key: Any) -> None:
    if isinstance(inside, list):
        inside.append(chance.choice((copy.deepcopy(inside[key]), chance.choice(ANYTHING))))
    else:
        inside[chance.choice(("new_member", "x" * 300, "a.b", "\U0001f4b0"))] = chance.choice(
            ANYTHING
        )


def one_level_deeper(chance: Random, inside: Any, key: Any) -> None:
    inside[key] = chance.choice(([inside[key]], {"value": inside[key]}))


def values_exchanged(chance: Random, inside: Any, key: Any) -> None:
    other = chance.choice(list(inside) if isinstance(inside, dict) else list(range(len(inside))))
    inside[key], inside[other] = inside[other], inside[key]


def wrapped(chance: Random, whole: Json) -> Json:
    return chance.choice(([whole], {"data": whole}, None, [], {}, "x", 5, json.dumps(whole)))


def many_rows(chance: Random, whole: Json) -> Json:
    """As many as no page holds, each an object of its own."""
    for value in whole.values() if isinstance(whole, dict) else ():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            first = value[0]
            value += [{**first, "id": f"more-{number}"} for number in range(MANY)]
    return whole


IN_STRUCTURE: tuple[Callable[[Random, Json], Json], ...] = (
    *[at_some_place(another_value)] * 8,
    *[at_some_place(nothing_there)] * 3,
    at_some_place(another_name),
    at_some_place(one_more),
    at_some_place(one_level_deeper),
    at_some_place(values_exchanged),
    wrapped,
    many_rows,
)


# ---------------------------------------------------------------------------- text


def cut(chance: Random, text: bytes) -> bytes:
    return text[: chance.randrange(len(text) + 1)]


def flipped(chance: Random, text: bytes) -> bytes:
    broken = bytearray(text or b"x")
    broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    return bytes(broken)


def something_inside(chance: Random, text: bytes) -> bytes:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(ENDS) + text[at:]


def something_behind(chance: Random, text: bytes) -> bytes:
    return text + chance.choice(ENDS)


def members_twice(chance: Random, text: bytes) -> bytes:
    """The last one counts."""
    twice = chance.choice((b'"id":"first",', b'"amount":"1.00",', b'"items":[],', b'"x":1,"x":2,'))
    return text.replace(b"{", b"{" + twice, chance.choice((1, -1)))


def deep(chance: Random, text: bytes) -> bytes:
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    inner = opening * DEEP + b"1" + closing * chance.choice((0, DEEP))
    return chance.choice((inner, text.replace(b"null", inner, 1), b'{"items":' + inner + b"}"))


def another_coding(chance: Random, text: bytes) -> bytes:
    return text.decode("utf-8", "surrogatepass").encode(
        chance.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig")), "replace"
    )


def a_number_of_many_digits(chance: Random, text: bytes) -> bytes:
    return text.replace(b"null", b"1" * 100_000, 1).replace(b'"', b"1" * 5_000 + b'"', 1)


def spaced(chance: Random, text: bytes) -> bytes:
    return b" " * 200_000 + text.replace(b",", b" \r\n\t, ")


IN_TEXT: tuple[Callable[[Random, bytes], bytes], ...] = (
    cut, cut, flipped, flipped, something_inside, something_behind, members_twice, deep,
    another_coding, a_number_of_many_digits, spaced,
)  # fmt: skip


# ---------------------------------------------------------------------------- on the wire


def wired(chance: Random, status: int, body: bytes) -> bytes:
    """A whole HTTP answer; most are sound, some coded, cut or counted wrongly."""
    kind = chance.random()
    head = [f"HTTP/1.1 {status} Whatever", "Content-Type: application/json"]
    if kind < 0.80:
        return http(head, body)
    if kind < 0.85:
        return http([*head, "Content-Encoding: gzip"], gzip.compress(body, 1))
    if kind < 0.88:
        return http([*head, "Content-Encoding: gzip"], cut(chance, gzip.compress(body, 1)))
    if kind < 0.90:
        return http([*head, f"Content-Encoding: {chance.choice(('gzip', 'deflate'))}"], body)
    if kind < 0.91:
        return http([*head, "Content-Encoding: gzip"], bomb())
    if kind < 0.94:
        return http([*head, "Connection: close"], body, length=len(body) + chance.randrange(1, 99))
    if kind < 0.96:
        return http([*head, "Connection: close"], body, length=max(len(body) - 7, 0))
    if kind < 0.99:
        return http(head, body, chunks=chance.choice((b"%x", b"%x", b"-%x", b"z%x")))
    return http([flipped(chance, "\r\n".join(head).encode()).decode("latin-1")], body)


def http(
    head: list[str], body: bytes, *, length: int | None = None, chunks: bytes | None = None
) -> bytes:
    if chunks is not None:
        half = len(body) // 2
        parts = [part for part in (body[:half], body[half:]) if part]
        body = b"".join(chunks % len(part) + b"\r\n" + part + b"\r\n" for part in parts)
        head, body = [*head, "Transfer-Encoding: chunked"], body + b"0\r\n\r\n"
    else:
        head = [*head, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


@cache
def bomb() -> bytes:
    """A few hundred kilobytes that become hundreds of megabytes."""
    coder = zlib.compressobj(9, wbits=31)
    parts = [coder.compress(b"[" + b" " * 2**20) for _ in range(BOMB_BYTES // 2**20)]
    return b"".join(parts) + coder.flush()


# ---------------------------------------------------------------------------- the program

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
    rows = {row["id"]: row for row in reversed(sent.get(OPERATIONS[name].items or "") or ())}
    return {row.id for row in found} == set(rows) and all(
        same(row.to_json(), rows[row.id]) for row in found
    )


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def different(store: Store, table: str, *pages: bytes) -> str:
    """``right``, ``SetAside`` where odd rows are kept aside to the letter and the others are right,
    or which member of a row is not in the table as the json module reads it."""
    items = TABLES[table].items or ""
    sent = [row for page in pages for row in json.loads(page).get(items) or ()]
    aside = {json.dumps(json.loads(raw), sort_keys=True) for raw in store.set_aside()["raw"]}
    if not aside <= {json.dumps(row, sort_keys=True) for row in sent}:
        return f"wrong: set aside is what was not sent: {sorted(aside)[:2]}"
    rows = [row for row in sent if json.dumps(row, sort_keys=True) not in aside]
    often = Counter(row["id"] for row in rows)
    found = {row["id"]: row for row in store.read_arrow(table).to_pylist()} if rows else {}
    if found.keys() != often.keys():
        return f"wrong: {len(found)} ids instead of {len(often)}"
    for row in rows:
        if often[row["id"]] == 1:
            for name, value in row.items():
                if not holds(found[row["id"]], table, name, value):
                    return f"wrong: {row['id']} {name} is {value!r}"
    return "SetAside" if aside else "right"


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
