"""What somebody asks at the edges once a run is over: of lists that workers share out, of filters
that nobody hears, of stores that others write, merge and lose while somebody reads them."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

import fundlab as fl
from fundlab.base.errors import IgnoredFilterWarning, StoreDamaged, StoreError, StoreLocked
from fundlab.client.http import Answer, Outgoing
from fundlab.store import disk
from fundlab.store.manifests import write_manifest
from fundlab.store.parts import BOOKKEEPING, Header, Publication, write_part
from fundlab.store.remote import RemotePath
from fundlab.tables.schema import SCHEMA_VERSION, TABLES
from tests.simulation import oracles
from tests.simulation.bucket import Bucket
from tests.simulation.environment import NS, Virtual
from tests.simulation.oracles import check, moment, refuses
from tests.simulation.papers import heard
from tests.simulation.schedule import Wrong

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_DAY: Final = 24 * 3600 * NS
_MINUTE: Final = 60 * NS
_NOTED: Final = re.compile(r"/(runs/|\.lock$|\.staging/)")
"""What is no part of what is published."""
_CREATED: Final = ("created_at.gte", "created_at.lt")
Span = tuple[int | None, int | None]


def _lists(request: Outgoing) -> bool:
    return request.method == "GET" and "/transfers?" in request.url


def _text(at: int) -> str:
    return str(fl.base.values.Instant.from_ns(at))


# ------------------------------------------------------------------------------ lists


def shared_out(desk: Desk) -> None:
    """Several workers begin with as many windows of equal length, on the time in which there are
    rows, and cut them on the way; each is asked for once, and no row comes twice but where one is
    cut. One worker, and several where nobody hears of windows, read the list as a whole."""
    moments = sorted(moment(row["created_at"]) for row in oracles.at_the_service(desk).values())
    oldest, middle, newest = moments[0], moments[len(moments) // 2], moments[-1]
    of_one_moment = max(Counter(moments).values())
    asked: list[tuple[dict[str, list[str]], int]] = []
    deaf = False

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        if not _lists(request):
            return send()
        query = parse_qs(urlsplit(request.url).query)
        if deaf:
            others = re.sub(r"&?created_at[^&]*", "", urlsplit(request.url).query)
            request = replace(request, url=f"{request.url.partition('?')[0]}?{others}")
        found = send(request)
        if found.status == 200 and query["limit"] != ["1"]:  # not a look at one end
            asked.append((query, len(json.loads(found.body)["items"])))
        return found

    for workers, since, until, hears in (
        (1, None, None, True), (2, None, None, True), (3, middle, None, True),
        (3, None, middle, True), (4, oldest - 5 * _DAY, newest + 5 * _DAY, True),
        (3, None, None, False),
    ):  # fmt: skip
        asked.clear()
        deaf = not hears and not desk.keys  # else its signature would be of another
        given = {name: _text(at) for name, at in (("since", since), ("until", until))
                 if at is not None}  # fmt: skip
        with heard(desk, answer) as client:
            rows = len(fl.load_transfers(client, workers=workers, limit=5, **given))  # type: ignore[arg-type]
        there = [at for at in moments if (since or 0) <= at < (until or 1 << 62)]
        check(rows == len(there), f"{workers} workers: {rows} rows of {len(there)}")
        begun = [query for query, _ in asked if "page_cursor" not in query]
        windows: list[Span] = [
            tuple(moment(query[name][0]) if name in query else None for name in _CREATED)  # type: ignore[misc]
            for query in begun
        ]
        said = f"{workers} workers from {since} to {until} asked for {windows}"
        check(len({*windows}) == len(windows), f"{said}: one twice")
        if workers == 1 or deaf or there[-1] - there[0] < 2:
            check(windows == [(since, until)], said)
            continue
        length = there[-1] - there[0]
        cuts = {there[0] + length * number // workers for number in range(1, workers)}
        check({since, *cuts} <= {first for first, _ in windows}, f"{said}, not from {cuts} on")
        edges = [there[0], *sorted(cuts), newest + 1]
        size = max(rows for _, rows in asked)  # a service may give more than it was asked for
        pages = [sum(one <= at < end for at in there) // size for one, end in pairwise(edges)]
        uneven = max(pages) > min(pages) + 3  # who has nothing left takes of what others have
        check(len(windows) > workers or not uneven, f"{said}, for {pages} pages")
        came = sum(length for _, length in asked)
        most = (len(windows) - workers) * of_one_moment
        check(came - rows <= most, f"{said}: {came} rows came of {rows}")


def unheard(desk: Desk) -> None:
    """A filter that the service does not hear is kept to all the same, and named; a row that does
    not show what it is about is kept, and that is said. What is heard is not spoken of."""
    theirs = oracles.at_the_service(desk)
    by_time = sorted(theirs.values(), key=lambda row: (row["created_at"], row["id"]))
    middle = by_time[len(by_time) // 2]
    struck: list[str] = []
    hidden: dict[str, str] = {}

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        if not _lists(request):
            return send()
        place, _, query = request.url.partition("?")
        kept = [one for one in query.split("&") if not one.startswith(tuple(struck))]
        found = send(replace(request, url=f"{place}?{'&'.join(kept)}") if struck else request)
        page = json.loads(found.body)
        for row in page.get("items", ()) if hidden else ():
            if row["id"] == hidden["id"]:
                row.pop(hidden["member"], None)
        return Answer(found.status, found.headers, json.dumps(page).encode())

    def told(load: Callable[[], Any]) -> tuple[Any, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = load()
        return found, [str(one.message) for one in caught if one.category is IgnoredFilterWarning]

    some = middle["profile_id"], middle["status"], middle["type"], middle["updated_at"]
    filters: list[tuple[str, Any, Callable[[dict[str, Any]], bool]]] = [
        ("profile_ids", [some[0]], lambda row: row["profile_id"] == some[0]),
        ("statuses", some[1], lambda row: row["status"] == some[1]),
        ("type", some[2], lambda row: row["type"] == some[2]),
        ("ids", [middle["id"], by_time[0]["id"]],
         lambda row: row["id"] in (middle["id"], by_time[0]["id"])),
        ("updated_at_gte", some[3], lambda row: moment(row["updated_at"]) >= moment(some[3])),
        ("updated_at_lt", some[3], lambda row: moment(row["updated_at"]) < moment(some[3])),
        ("created_at_gte", middle["created_at"],
         lambda row: moment(row["created_at"]) >= moment(middle["created_at"])),
    ]  # fmt: skip
    for name, value, belongs in filters:
        wanted = {id_ for id_, row in theirs.items() if belongs(row)}
        for deaf in (False, True) if not desk.keys else (False,):
            struck[:] = [name.replace("_at_", "_at.")] if deaf else []
            hidden.clear()
            with heard(desk, answer) as client:
                load = fl.load_transfers
                frame, said = told(lambda: load(client, limit=20, **{name: value}))  # type: ignore[arg-type] # noqa: B023
            got = {*frame["id"]}
            check(got == wanted, f"{name}, {'un' * deaf}heard: {got ^ wanted}")
            few = deaf and wanted != theirs.keys()
            right = len(said) == few and all(f"ignored {name}: " in text for text in said)
            check(right, f"of {name}, {'un' * deaf}heard, it is said: {said}")
    for name, value, member in (
        ("profile_ids", some[0], "profile_id"), ("statuses", [some[1]], "status"),
        ("type", some[2], "type"), ("updated_at_gte", some[3], "updated_at"),
        ("created_at_gte", middle["created_at"], "created_at"),
    ):  # fmt: skip
        struck.clear()
        hidden |= {"id": middle["id"], "member": member}
        with heard(desk, answer) as client:
            frame, said = told(lambda: fl.load_transfers(client, limit=20, **{name: value}))  # type: ignore[arg-type] # noqa: B023
        check(middle["id"] in {*frame["id"]}, f"a row without {member} is left out by {name}")
        right = len(said) == 1 and f"{name} cannot be checked" in said[0]
        check(right, f"of {name}, and a row without {member}, it is said: {said}")
    if desk.keys:
        return
    # a sync goes by filters: what is not heard of them is said, and nothing is left out
    struck[:], store = ["updated_at.", "created_at."], fl.Store(desk.root / "unheard")
    hidden.clear()
    with desk.client("payer") as client:
        store.sync(client, progress=False)
    with heard(desk, answer) as client:
        _, said = told(lambda: store.sync(client, progress=False))
    states = {id_: row["status"] for id_, row in oracles.as_read(store).items()}
    wanted = {id_: row["status"] for id_, row in oracles.at_the_service(desk).items()}
    check(states == wanted, f"with filters that were not heard: {states.items() ^ wanted.items()}")
    check(any("transfers: the service ignored created_at_gte" in text for text in said), f"{said}")


def undated(desk: Desk) -> None:
    """Rows that do not say when they were made are stored, known again, merged, published and
    found by SQL as the others are; of a stretch of time there are none of them."""
    theirs = oracles.at_the_service(desk)
    without = {*sorted(theirs)[3::7]}

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        found = send()
        if not _lists(request) or found.status != 200:
            return found
        page = json.loads(found.body)
        for row in page["items"]:
            if row["id"] in without:
                del row["created_at"]
        return Answer(found.status, found.headers, json.dumps(page).encode())

    store, folder = fl.Store(desk.root / "undated"), desk.root / "undated-open"
    dated = {id_: moment(row["created_at"]) for id_, row in theirs.items() if id_ not in without}
    middle = sorted(dated.values())[len(dated) // 2]

    def holds(what: str) -> None:
        frame = store.read("transfers")
        at = dict(zip(frame["id"], frame["created_at"], strict=True))
        check(at.keys() == theirs.keys(), f"{what}: {at.keys() ^ theirs.keys()}")
        off = [id_ for id_ in at if (at[id_].value if id_ in dated else None) != dated.get(id_)
               or (id_ in without and not pd.isna(at[id_]))]  # fmt: skip
        check(not off, f"{what}: {off} were made at another time")
        by_sql = {id_ for (id_,) in store.scan("transfers").project("id").fetchall()}
        check(by_sql == theirs.keys(), f"{what}, by SQL: {by_sql ^ theirs.keys()}")
        for given, wanted in (
            ({"since": _text(middle)}, {id_ for id_, at in dated.items() if at >= middle}),
            ({"until": _text(middle)}, {id_ for id_, at in dated.items() if at < middle}),
        ):
            got = {*store.read("transfers", columns=["id"], **given)["id"]}  # type: ignore[arg-type]
            check(got == wanted, f"{what}, {given}: {got ^ wanted}")
        oracles.sound(desk, store)

    with heard(desk, answer) as client:
        for workers in (1, 3):
            some = fl.load_transfers(client, limit=10, workers=workers)
            check({*some["id"]} == theirs.keys() and some["id"].is_unique, f"by {workers} workers")
        done = store.sync(client, progress=False)
        check(done["transfers"].new == len(theirs), f"{done}")
        holds("undated")
        again = store.sync(client, full=True, progress=False)["transfers"]
        check((again.new, again.changed) == (0, 0), f"undated, and known again: {again}")
    with desk.client("payer") as client:  # now it is said of some
        without -= {*sorted(without)[::2]}
        dated = {id_: moment(row["created_at"]) for id_, row in theirs.items()
                 if id_ not in without}  # fmt: skip
    with heard(desk, answer) as client:
        store.sync(client, full=True, progress=False)
        holds("dated by and by")
        store.compact()
        holds("merged")
    for _ in range(2):
        done = store.publish(folder)["transfers"]
    check(not done.written, f"published again: {done}")
    ids = pq.read_table(folder / "transfers" / "month=unknown" / "rows.parquet")["id"].to_pylist()
    check(sorted(ids) == sorted(without), f"of an unknown month: {ids}")


# ------------------------------------------------------------------------------ stores


def superseded(desk: Desk) -> None:
    """The files that were merged are there for an hour, for who has begun to read them, and go with
    the next run; here, and where the files have a time of their own."""
    here, bucket = desk.root / "superseded", Bucket(lambda _: None)
    there = bucket.place(desk.root / "superseded-scratch")
    by_time = sorted(moment(row["created_at"]) for row in oracles.at_the_service(desk).values())

    def names(store: fl.Store) -> set[str]:
        return {path.name for path in disk.files_in(store.path / "transfers")}

    for place in (here, there):
        store = fl.Store(place)
        with desk.client("clerk") as client:
            for share in (4, 2, None):  # each sync goes further back
                since = None if share is None else _text(by_time[-len(by_time) // share])
                store.sync(client, since=since, full=since is None, progress=False)
        known, before = oracles.as_read(store), names(store)
        check(len(before) == 3, f"{place}: three syncs have made {before}")
        begun = store.scan("transfers")
        Virtual.now_ns += 60 * _MINUTE  # the parts are old, their merged rows are new
        store.compact(["transfers"])
        merged_at = Virtual.now_ns
        (base,) = names(store) - before
        for minutes, kept in ((1, True), (59, True), (61, False)):
            Virtual.now_ns = merged_at + minutes * _MINUTE
            store.pin(f"after-{minutes}")
            wanted = {base} | (before if kept else set())
            check(names(store) == wanted, f"{place}: after {minutes} minutes {names(store)}")
            check(oracles.as_read(store) == known, f"{place}: after {minutes} minutes it is read "
                  "otherwise")  # fmt: skip
            if kept:
                ((count,),) = begun.aggregate("COUNT(*)").fetchall()
                check(count == len(known), f"{place}: who had begun reads {count} rows")
        left = [one for one in (desk.root / "superseded-scratch").rglob("*") if one.name != ".lock"]
        check(place is here or not any(one.is_file() for one in left), f"on its way is {left}")


def unpublished(desk: Desk) -> None:
    """A sync that may not publish what it has fetched leaves the files of its store as they were,
    and the next one has all; a pass over all rows notes what came by it, whatever was noted since.
    """
    copied = desk.root / "unpublished"
    shutil.copytree(desk.store().path, copied)
    store, spoil = fl.Store(copied), [False]
    with desk.client("payer") as client:
        store.sync(client, progress=False)  # what the one before left is put in order
        client.create_fiat_withdrawal(
            amount="0.09", asset="USD", profile_id=desk.profiles[0], fiat_account_id=desk.account
        )

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(copied.rglob("*"))
                if path.is_file() and not _NOTED.search(str(path))}  # fmt: skip

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        if "/balances/" in request.url and spoil[0]:  # the last that is asked for
            (copied / ".lock").unlink()
            (copied / ".lock").write_text("")
            spoil[0] = False
        return send()

    before, number = files(), store.manifest().number
    spoil[0] = True
    with heard(desk, answer) as client:
        refuses(lambda: store.sync(client, progress=False), "was taken away", "nothing was publish",
                by=StoreError)  # fmt: skip
        check(store.manifest().number == number, "refused, and published")
        after = files()
        others = [name for name in before.keys() | after if before.get(name) != after.get(name)]
        check(not others, f"refused, and {others} is another than before")
        store.sync(client, progress=False)
        store.pin("unpublished")
        store.sync(client, full=True, progress=False)
    oracles.totals_noted(desk, [record.content for record in store.records()])
    theirs = oracles.at_the_service(desk)
    check(oracles.held(store).keys() >= theirs.keys(), "not all, after one that was refused")
    oracles.sound(desk, store)


class Watched(Bucket):
    """The files of ``other``, by a machine of whose every opening and every write it is told first.
    What is in ``gone`` is not there to it."""

    def __init__(self, other: Bucket) -> None:
        super().__init__(lambda path: self.puts(path))
        self._store, self._written_ns = other._store, other._written_ns
        self.opens: Callable[[str], object] = lambda path: None
        self.puts: Callable[[str], str | None] = lambda path: None
        self.gone: Callable[[str], bool] = lambda path: False

    def open_input_file(self, path: str) -> pa.NativeFile:
        self.opens(path)
        if self.gone(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return super().open_input_file(path)

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        found = super().get_file_info(paths)
        return [fs.FileInfo(one.path, fs.FileType.NotFound) if self.gone(one.path) else one
                for one in found]  # fmt: skip


def moving(desk: Desk) -> None:
    """Who reads while others publish, merge and tidy up reads what was known; whose files go faster
    than anybody can read is told so, and not before a while. Who writes meanwhile is told, too."""
    bucket = Bucket(lambda _: None)
    watched = Watched(bucket)
    other = fl.Store(bucket.place(desk.root / "moving-other"))
    path = RemotePath("books/funds", "s3", desk.root / "moving-here", fs.PyFileSystem(watched))
    store, numbers = fl.Store(path), count(1)
    by_time = sorted(moment(row["created_at"]) for row in oracles.at_the_service(desk).values())
    with desk.client("clerk") as client:
        for since in (_text(by_time[-len(by_time) // 3]), None):
            other.sync(client, since=since, full=since is None, progress=False)
    known = oracles.as_read(other)

    def pin(_: str = "") -> None:
        other.pin(f"moving-{next(numbers)}")

    def times(most: int, what: str, act: Callable[[str], object]) -> Callable[[str], object]:
        """``act`` the first times that something called so is opened."""
        left = [most]

        def opens(path: str) -> None:
            if what in path and left[0]:
                left[0] -= 1
                act(path)

        return opens

    def tidied(path: str) -> None:
        other.compact(["transfers"])
        Virtual.now_ns += 61 * _MINUTE
        pin()

    def twice(path: str) -> None:
        pin()
        pin()

    for what, act in (("/manifests/", twice), ("/transfers/", tidied), ("/head", twice)):
        watched.opens = times(2, what, act)
        got = oracles.as_read(store)
        check(got == known, f"while {what} was written: {got.items() ^ known.items()}")

    # files that go all the time
    missing = [0]
    for attempts, seconds, ends in ((9, 5, True), (15, 1, True), (1 << 30, 3, False)):
        missing[0], began = attempts + 1, Virtual.now_ns

        def go(_: str, seconds: int = seconds, began: int = began) -> None:
            check(Virtual.now_ns - began < 2 * _MINUTE, "who reads goes on and on")
            missing[0] -= 1
            Virtual.now_ns += seconds * NS
            pin()

        watched.opens = times(attempts + 1, "/transfers/", go)
        watched.gone = lambda path: missing[0] > 0 and path.endswith(".parquet")
        if ends:
            check(oracles.as_read(store) == known, f"files that went {attempts} times are lost")
            continue
        refuses(lambda: store.read("transfers"), "changes too fast to be read", by=StoreDamaged)
        waited = (Virtual.now_ns - began) // NS
        check(20 <= waited <= 60, f"who reads gave up after {waited} seconds")
    watched.opens, watched.gone = lambda path: None, lambda path: "/manifests/0" in path
    began = Virtual.now_ns
    refuses(store.manifest, "changes too fast to be read", by=StoreDamaged)
    check(Virtual.now_ns - began >= NS // 2, "who reads gave up at once")
    watched.gone = lambda path: False

    # who writes meanwhile
    def late(request: Outgoing, send: Callable[..., Any]) -> Any:
        if "/balances/" in request.url:
            pin()
        return send()

    with heard(desk, late) as client:
        number = store.manifest().number
        refuses(lambda: store.sync(client, progress=False), "has published since", by=StoreLocked)
    check([*store.pins()] == [*other.pins()], "who was late has published")

    def puts(path: str) -> None:
        if "/manifests/0" in path:
            watched.puts = lambda path: None
            pin()

    watched.puts = puts
    refuses(lambda: store.pin("late"), "has published since", by=StoreLocked)
    check("late" not in other.pins(), "who was late has pinned")
    refuses(lambda: store.pin("moving-1"), "choose another", by=StoreError)
    check(other.manifest().number > number and oracles.as_read(store) == known, "of two who wrote")


def unreadable(desk: Desk) -> None:
    """A file that the disk does not give is named, with what the disk says and whom to see; nobody
    takes it for damaged, or for one that is not there."""
    whole = desk.store().path
    newest = max((whole / "manifests").glob("*.json"))
    (*_, (part, *_)) = json.loads(newest.read_bytes())["manifest"]["files"]["transfers"]
    records = sorted((whole / "records").glob("*.json"))[-1:]
    for number, name in enumerate((
        "head", f"manifests/{newest.name}", f"transfers/{part}", "runs/sync.json",
        *(f"records/{one.name}" for one in records),
    )):  # fmt: skip
        copied = desk.root / f"unreadable-{number}"  # nobody knows its files by now
        shutil.copytree(whole, copied)
        desk.disk.cannot_read = (copied / name).as_posix().__eq__
        try:
            store = fl.Store(copied)
            found: Any = store.records(), store.read("transfers", columns=["id"]), store.runs()
        except StoreError as error:
            text = str(error)
        else:
            raise Wrong(f"{name} cannot be read, and is: {found}")
        finally:
            desk.disk.cannot_read = lambda path: False
        # (manifests are named by their store, notes by their folder)
        there = not name.startswith(("transfers/", "records/")) or Path(name).name in text
        right = there and f"cannot be read: {os.strerror(errno.EIO)}: see to the disk" in text
        check(right and str(copied) in text, f"of {name}, which cannot be read, it is said: {text}")
        check(oracles.as_read(fl.Store(copied)) == oracles.held(fl.Store(whole)), f"then {name}")


def forged(desk: Desk) -> None:
    """A file that is intact, and does not belong where it is, is no part of a store: one that
    replaces rows that are not there, or one twice; of another table, number or format."""
    whole = desk.store()
    assert isinstance(whole.path, Path)
    manifest = whole.manifest()
    parts = whole.snapshot("transfers").files
    number, last, rows = manifest.number + 1, parts[-1], whole.read("transfers", columns=["id"])
    end = last.starts[last.live_groups]
    some = pq.read_table(parts[0].path).select(TABLES["transfers"].schema.names).slice(0, 3)
    other = [None] * some.num_rows
    publication = Publication(number, manifest.at + NS, query={"since": None})
    header = Header("transfers", SCHEMA_VERSION, manifest.service, (publication,))
    nowhere: list[tuple[list[Any], list[Any], str]] = [
        (
            [None, 9999, None],
            [None, 0, None],
            "row 1 replaces row 0 of file 9999, which has 0 rows",
        ),
        (
            [9999, None, None],
            [5, None, None],
            "row 0 replaces row 5 of file 9999, which has 0 rows",
        ),
        (
            [None, None, last.seq],
            [None, None, end],
            f"row 2 replaces row {end} of file {last.seq}, which has {end} rows",
        ),
        ([None, last.seq, None], [None, -1, None], f"replaces row -1 of file {last.seq}"),
        ([last.seq, last.seq, None], [end - 1, end - 1, None], f"row {end - 1} is replaced twice"),
        ([number, None, None], [0, None, None], f"replaces row 0 of file {number}"),
    ]
    cases: list[tuple[Header, Sequence[Any], Sequence[Any], int, str]] = [
        *((header, *one[:2], number, one[2]) for one in nowhere),
        (replace(header, table="events"), other, other, number, "holds events, not transfers"),
        (replace(header, schema_version=SCHEMA_VERSION + 1), other, other, number,
         f"version {SCHEMA_VERSION + 1} of the format, this one reads up to {SCHEMA_VERSION}"),
        (header, other, other, number + 1, f"holds publication {number}, not {number + 1}"),
        (header, other, other, number, ""),
    ]  # fmt: skip
    for place, (head, seqs, places, named, said) in enumerate(cases):
        copied = desk.root / f"forged-{place}"
        shutil.copytree(whole.path, copied)
        table = some
        for field, values in zip(BOOKKEEPING["part"], (seqs, places), strict=True):
            table = table.append_column(field, pa.array(values, field.type))
        draft = write_part(copied / "transfers", "part", TABLES["transfers"], head, [table])
        name = draft.file.name.replace(f"{number:08d}", f"{named:08d}")
        draft.hidden.rename(copied / "transfers" / name)
        files = (*manifest.files["transfers"], replace(draft.file, name=name))
        write_manifest(copied, manifest, manifest.at + NS, manifest.service,
                       {**manifest.files, "transfers": files}, manifest.record)  # fmt: skip
        store = fl.Store(copied)
        if said:
            refuses(lambda: store.read("transfers"), said, by=StoreError)  # noqa: B023
            check(store.verify().is_damaged or "version" in said, f"verify takes it: {said}")
        else:  # all that was wrong was that
            check(len(store.read("transfers")) == len(rows) + some.num_rows, "it is not read")
