"""What somebody asks about stores once a run is over: kept elsewhere, published, damaged, of
another service, by a clock that is wrong; and what a notebook loads of a service that answers
otherwise."""

from __future__ import annotations

import copy
import errno
import json
import os
import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import MemoryStore
from pyarrow import fs
from requests.structures import CaseInsensitiveDict

import fundlab as fl
from fundlab.base.errors import (
    ContradictionWarning,
    DataError,
    InvalidRequest,
    ProtocolError,
    SetAsideWarning,
    StoreDamaged,
    StoreError,
)
from fundlab.client.http import Answer, Failure, Outgoing
from fundlab.store import staging
from fundlab.store.objects import Objects
from fundlab.store.remote import RemotePath, locate
from fundlab.tables.schema import TABLES
from tests.simulation import oracles
from tests.simulation.environment import NS, Virtual
from tests.simulation.oracles import check, dec, moment, refuses
from tests.simulation.papers import heard

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_DAY: Final = 24 * 3600 * NS


# ------------------------------------------------------------------------------ loading


def side_by_side(desk: Desk) -> None:
    """Whatever number of workers loads, in pages however long, each row comes once and in order;
    of each list, and of stretches of time down to one moment."""
    theirs = oracles.at_the_service(desk)
    by_time = sorted((moment(row["created_at"]), id_) for id_, row in theirs.items())
    moments = [at for at, _ in by_time]
    middle, newest = moments[len(moments) // 2], moments[-1]
    asked: list[tuple[int, int, str, int | None, int | None]] = [
        (2, 3, "ASC", None, None), (3, 7, "DESC", None, None), (4, 5, "ASC", middle, None),
        (3, 4, "ASC", None, middle), (2, 5, "ASC", moments[3], max(middle, moments[3] + 1)),
        (2, 5, "ASC", newest, None), (2, 5, "ASC", newest + 1, None),
        (2, 5, "DESC", moments[0], moments[0] + 1), (1, 6, "ASC", middle, max(newest, middle + 1)),
    ]  # fmt: skip
    with desk.client("payer") as client:
        for workers, limit, order, since, until in asked:
            given = {
                name: str(fl.base.values.Instant.from_ns(at))
                for name, at in (("since", since), ("until", until)) if at is not None
            }  # fmt: skip
            frame = fl.load_transfers(client, workers=workers, limit=limit, order=order, **given)  # type: ignore[arg-type]
            wanted = [id_ for at, id_ in by_time if (since or 0) <= at < (until or 1 << 62)]
            wanted = wanted[::-1] if order == "DESC" else wanted
            check([*frame["id"]] == wanted, f"{workers} workers, {limit} a page, {order}, {given}: "
                  f"{len(frame)} rows of {len(wanted)}")  # fmt: skip
        for load, table in (
            (fl.load_events, "events"), (fl.load_fiat_accounts, "fiat_accounts"),
            (fl.load_deposit_instructions, "fiat_deposit_instructions"),
        ):  # fmt: skip
            known = {id_ for (id_,) in desk.service.database.all(f"SELECT id FROM {table}")}
            found = load(client, workers=3, limit=9)["id"]
            check({*found} == known and found.is_unique, f"{table}, by three workers")
        one = fl.load_balances(client, workers=1)
        three = fl.load_balances(client, workers=3)
        names = ["profile_id", "asset", "available", "trading"]
        check(one[names].equals(three[names]), "balances, by three workers")
        profile = desk.profiles[0]
        ids = sorted(id_ for id_, row in theirs.items() if row["profile_id"] == profile)
        got = fl.load_transfers(client, workers=3, limit=4, profile_ids=profile)
        check(sorted(got["id"]) == ids, "of one profile, by three workers")
        for wrong in (0, -1, "two"):
            refuses(lambda wrong=wrong: fl.load_transfers(client, workers=wrong), "workers")  # type: ignore[misc]
        refuses(lambda: fl.load_transfers(client, page_cursor="a"), "page_cursor")
        refuses(lambda: fl.load_transfers(client, since=middle, created_at_gte=middle), "since")  # type: ignore[arg-type]


def otherwise(desk: Desk) -> None:
    """A service that answers what it should not: told, set aside, or the newest of two is taken."""
    theirs = oracles.at_the_service(desk)
    some = sorted(theirs)[len(theirs) // 2]

    def rows(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Any:
        """A client to whom each page of transfers comes with ``change``."""

        def answer(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
            found = send()
            if request.method == "GET" and "/transfers?" in request.url and found.status == 200:
                page = json.loads(found.body)
                page["items"] = change(page["items"])
                return Answer(found.status, found.headers, json.dumps(page).encode())
            return cast("Answer", found)

        return heard(desk, answer)

    def garbled(page: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | {"amount": "1,5"} if row["id"] == some else row for row in page]

    def twice(page: list[dict[str, Any]]) -> list[dict[str, Any]]:
        later = "2027-01-01T00:00:00Z"
        return [other for row in page for other in (
            [row | {"status": "FAILED", "updated_at": later}, row] if row["id"] == some else [row]
        )]  # fmt: skip

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with rows(garbled) as client:
            refuses(lambda: fl.load_transfers(client), some, by=DataError)
            frame = fl.load_transfers(client, invalid="set_aside", limit=20)
        (aside,) = frame.attrs["set_aside"]
        got = aside["table"], aside["id"], json.loads(aside["raw"])["amount"]
        check(got == ("transfers", some, "1,5"), f"set aside is {aside}")
        check({*frame["id"]} == theirs.keys() - {some}, "with one set aside others are loaded")
        said = [str(one.message) for one in told if one.category is SetAsideWarning]
        check(len(said) == 1 and "1 row" in said[0] and some in said[0], f"set aside: {said}")
        told.clear()
        with rows(twice) as client:
            frame = fl.load_transfers(client, limit=20)
        (status,) = frame["status"][frame["id"] == some]
        check(status == "FAILED", f"of two versions {status} was taken")
        said = [str(one.message) for one in told if one.category is ContradictionWarning]
        check(len(said) == 1 and some in said[0], f"of a row that is there twice: {said}")

    profile = desk.profiles[0]

    def of(change: Callable[[dict[str, Any]], dict[str, Any] | int]) -> Any:
        """A client to whom the balances of the first profile come with ``change``."""

        def answer(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
            found = send()
            if f"/{profile}/" not in request.url.casefold() or found.status != 200:
                return cast("Answer", found)
            other = change(json.loads(found.body))
            if isinstance(other, int):
                body = json.dumps({"title": "No", "status": other}).encode()
                return Answer(other, copy.copy(found.headers), body)
            return Answer(200, found.headers, json.dumps(other).encode())

        return heard(desk, answer)

    with of(lambda body: body | {"asset": "EUR"}) as client:
        refuses(lambda: fl.load_balances(client, profile, "USD"), "asset is 'EUR', not 'USD'",
                by=ProtocolError)  # fmt: skip
    with of(lambda _: 404) as client:
        left = fl.load_balances(client)
        check(profile not in {*left["profile_id"]} and len(left), "of a profile that is not there")
    # balances that were reported before, and are not now, are said, once
    whole, copied = desk.store(), desk.root / "unreported"
    shutil.copytree(whole.path, copied)
    store = fl.Store(copied)
    known = {*store.read("balances")["asset"][store.read("balances")["profile_id"] == profile]}
    with of(lambda _: 404) as client:
        done = store.sync(client, progress=False)
    check({*done.unreported} == {(profile, asset) for asset in known}, f"{done.unreported} is said")
    check(any("no longer reported" in note and "404" in note for note in done.notes), str(done))
    check("no longer reported" in str(done), f"{done}")
    with of(lambda body: body | {"available": "1,5"}) as client:
        done = store.sync(client, progress=False)
    keys = {row.id for row in done.set_aside if row.table == "balances"}
    check(keys == {f"{profile} {asset}" for asset in known}, f"set aside of balances: {keys}")
    with desk.client("payer") as client:
        done = store.sync(client, progress=False)
        check(not done.unreported and not done.set_aside, f"all is well, yet: {done}")

    def none(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
        if "/balances/" not in request.url:
            return cast("Answer", send())
        body = json.dumps({"title": "No", "status": 404}).encode()
        return Answer(404, copy.copy(send().headers), body)

    pairs = {*zip(store.read("balances")["profile_id"], store.read("balances")["asset"],
                  strict=True)}  # fmt: skip
    with heard(desk, none) as client:  # that none is seen any more is said, and published
        done = store.sync(client, progress=False)
    got = {*done.unreported}, done["balances"].new, done["balances"].part is not None
    check(got == (pairs, 0, True), f"of no balance: {got}")
    oracles.sound(desk, store)


def odd(desk: Desk) -> None:
    """Lists that end early, leave a row out, or know no filter: a sync brings what there is, and
    calls gone or refused only what the service says so of."""
    whole = desk.store().path
    theirs = oracles.at_the_service(desk)
    some = min(theirs, key=lambda id_: (theirs[id_]["created_at"], id_))

    def synced(name: str, answer: Any, **more: Any) -> tuple[Any, fl.Store]:
        copied = desk.root / f"odd-{name}"
        shutil.copytree(whole, copied)
        with heard(desk, answer) as client:
            return fl.Store(copied).sync(client, progress=False, **more), fl.Store(copied)

    def lists(request: Outgoing) -> bool:
        return request.method == "GET" and "/transfers?" in request.url

    def changed(found: Answer, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
        body = json.dumps(change(json.loads(found.body))).encode()
        return Answer(found.status, found.headers, body)

    def early(request: Outgoing, send: Callable[..., Any]) -> Any:
        found = send()
        if lists(request) and found.status == 200 and "ASC" in request.url:
            return changed(found, lambda page: {"items": page["items"][:9]})
        return found

    def without(request: Outgoing, send: Callable[..., Any]) -> Any:
        found = send()
        if lists(request) and found.status == 200:
            return changed(found, lambda page: page | {
                "items": [row for row in page["items"] if row["id"] != some]})  # fmt: skip
        return found

    def unread(request: Outgoing, send: Callable[..., Any]) -> Any:
        """The newest rows, by when they were made and changed, cannot be read."""
        found = send()
        if lists(request) and found.status == 200:
            return changed(found, lambda page: page | {"items": [
                row | {"amount": "1,5"} if row["id"] in newest else row
                for row in page["items"]]})  # fmt: skip
        return found

    def undated(request: Outgoing, send: Callable[..., Any]) -> Any:
        """Rows that do not say when they were changed."""
        found = send()
        if lists(request) and found.status == 200:
            return changed(found, lambda page: page | {"items": [
                {name: value for name, value in row.items() if name != "updated_at"}
                for row in page["items"]]})  # fmt: skip
        return found

    def denied(request: Outgoing, send: Callable[..., Any]) -> Any:
        if request.method == "GET" and request.url.endswith(f"/transfers/{some}"):
            body = json.dumps({"title": "No", "status": 403}).encode()
            return Answer(403, send().headers, body)
        return without(request, send)

    def not_found(request: Outgoing, send: Callable[..., Any]) -> Any:
        if request.method == "GET" and request.url.casefold().endswith(f"/transfers/{some}"):
            body = json.dumps({"title": "No", "status": 404}).encode()
            return Answer(404, send().headers, body)
        return without(request, send)

    def knows_no(*names: str) -> Any:
        """It refuses what asks by one of these."""

        def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
            if lists(request) and any(f"{name}=" in request.url for name in names):
                body = json.dumps({"title": "No such filter", "status": 422}).encode()
                return Answer(422, send().headers, body)
            return send()

        return answer

    fresh = desk.root / "early"
    with heard(desk, early) as client:
        done = fl.Store(fresh).sync(client, progress=False)
    known = {*fl.Store(fresh).read("transfers")["id"]}
    check(known == theirs.keys(), f"of a list that ended early: {known ^ theirs.keys()}")
    said = [note for note in done.notes if "the list ended early" in note]
    check(len(said) == 1 and f"{len(theirs) - 9:,} row" in said[0], f"ended early: {done.notes}")
    before = oracles.held(desk.store())
    with desk.client("payer") as client:
        new = client.create_fiat_withdrawal(
            amount="0.07", asset="USD", profile_id=desk.profiles[0], fiat_account_id=desk.account
        ).id
    rows_now = oracles.at_the_service(desk)
    newest = {max(rows_now, key=lambda id_: moment(rows_now[id_][name]))
              for name in ("created_at", "updated_at")}  # fmt: skip
    done, store = synced("unread", unread, full=True)
    aside = {row.id for row in done.set_aside}
    check(aside == newest, f"{newest} cannot be read, and set aside is {aside}")
    known = {*store.read("transfers", columns=["id"])["id"]}
    check(known >= rows_now.keys() - newest, "what cannot be read has kept others out")
    done, store = synced("undated", undated, full=True)
    times = store.read("transfers", columns=["id", "updated_at"])
    late = [id_ for id_, at in times.to_numpy() if id_ in rows_now and not pd.isna(at)]
    check(not late, f"the service does not say any more when {late} changed")
    for name, answer, gone, refused in (
        ("left-out", without, False, False), ("denied", denied, False, True),
        ("not-found", not_found, True, False),
        ("no-updated", knows_no("updated_at_gte"), False, False),
        ("no-filter", knows_no("updated_at_gte", "created_at_gte"), False, False),
        ("no-ids", knows_no("updated_at_gte", "ids"), False, False),
    ):  # fmt: skip
        full = name in ("left-out", "denied", "not-found")
        done, store = synced(name, answer, full=full)
        mine = ("transfers", some)
        check((mine in done.gone) == gone, f"{name}: gone is {done.gone}")
        check((mine in done.refused) == refused, f"{name}: refused is {done.refused}")
        rows = oracles.as_read(store)
        check(new in rows, f"{name}: what is new did not come")
        off = [id_ for id_ in before if rows[id_] != before[id_]]
        check(not off, f"{name}: {off} is another than before")
        oracles.sound(desk, store)
        listed = store.gone()
        states = {*listed["state"][listed["id"] == some]} if len(listed) else set()
        check(states == ({"gone"} if gone else {"refused"} if refused else set()),
              f"{name}: it is {states}")  # fmt: skip
        if gone or refused:  # it is listed again
            with desk.client("payer") as client:
                store.sync(client, full=True, progress=False)
            listed = store.gone()
            states = {*listed["state"][listed["id"] == some]}
            check(not states & {"gone", "refused"}, f"{name}, and listed again: {states}")


def lists(desk: Desk) -> None:
    """Another resource's list: each column of the narrowest type that holds it, each row once, by
    whatever its list and its cursor are called."""
    rows: list[dict[str, Any]] = [
        {"id": f"a{number}", "open": number % 2 == 0, "count": number - 2, "price": f"{number}.50",
         "amount": str(number), "zip_code": f"0{number}210", "share": f"0{number}.5",
         "at": f"2026-10-0{number + 1}T00:00:00.000000001Z", "name": f"n{number}",
         "big": 10**19 + number, "ratio": number + 0.25, "mixed": number if number else "x",
         "when": "2026-10-01T00:00:00Z" if number else "soon", "none": None, "some": [number],
         "version": f"{number}.5"}
        for number in range(5)
    ]  # fmt: skip
    rows[3] |= {"open": None, "count": None, "price": None, "at": None, "name": None}
    del rows[4]["ratio"]
    pages = {
        "": {"items": rows[:2], "next_page_cursor": "b"},
        "b": {"items": [rows[1], rows[2]], "next_page_cursor": None, "next_page": "c"},
        "c": {"items": rows[3:]},
    }
    asked: list[str] = []
    other: dict[str, Any] = {}

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        if "/v2/question" not in request.url:
            return send()
        asked.append(request.url)
        cursor = request.url.partition("page_cursor=")[2].partition("&")[0]
        body = other.get("body", pages.get(cursor))
        return Answer(200, CaseInsensitiveDict({"Content-Type": "application/json"}),
                      json.dumps(body).encode())  # fmt: skip

    with heard(desk, answer) as client:
        frame = fl.load_path(client, "/v2/question", limit=2)
        check([*frame["id"]] == [row["id"] for row in rows], f"{[*frame['id']]} was loaded")
        check(len(asked) == 3, f"three pages were asked for by {asked}")
        kinds = {name: str(frame[name].dtype) for name in frame}
        wanted = {
            "id": "string", "open": "boolean", "count": "Int64", "price": "decimal",
            "amount": "decimal", "zip_code": "string", "share": "string",
            "at": "datetime64[ns, UTC]", "name": "string", "big": "decimal", "ratio": "decimal",
            "mixed": "string", "when": "string", "none": "string", "some": "string",
            "version": "string",
        }  # fmt: skip
        check(kinds == wanted, f"of these types: {dict(kinds.items() ^ wanted.items())}")
        for number, row in enumerate(rows):
            got = {name: None if pd.isna(frame[name][number]) else frame[name][number]
                   for name in ("open", "count", "name")}  # fmt: skip
            check(got == {name: row[name] for name in got}, f"row {number} is {got}")
            for name in ("price", "amount", "big", "ratio"):
                value = row.get(name)
                here = frame[name][number]
                same = pd.isna(here) if value is None else Decimal(str(here)) == Decimal(str(value))
                check(same, f"{name} of row {number} is {here}, not {value}")
            at = frame["at"][number]
            same = pd.isna(at) if row["at"] is None else at.nanosecond == 1 and at.day == number + 1
            check(same, f"row {number} is of {at}")
        other["body"] = rows[:2]
        check(len(fl.load_path(client, "/v2/question")) == 2, "an answer that is a list")
        other["body"] = {"rows": rows}
        check(len(fl.load_path(client, "/v2/question", items="rows")) == 5, "another name")
        refuses(lambda: fl.load_path(client, "/v2/question"), "an object of rows", "items='…'",
                by=ProtocolError)  # fmt: skip
        other["body"] = {}
        check(fl.load_path(client, "/v2/question").empty, "no rows, and no array")
        for wrong in ("text", {"count": 1}, [1]):
            other["body"] = wrong
            refuses(lambda: fl.load_path(client, "/v2/question"), by=ProtocolError)


def ids(desk: Desk) -> None:
    """Ids of any length and letters are kept apart, loaded, stored, and known again."""
    theirs = sorted(oracles.at_the_service(desk))
    # few are longer than what is hashed side by side, or shorter than its first word
    sizes = (8, 16, 8, 24, 9, 31, 16, 33)
    called = {}
    for number, id_ in enumerate(theirs):
        size = {3: 130 + number, 17: 4}.get(number % 40, sizes[number % 8])
        name = f"{number}-{'ü' * (number % 3)}{id_ * 8}".encode()[:size]
        called[id_] = name.decode(errors="ignore")
    asked: list[str] = []

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        found = send()
        if request.method != "GET" or "/transfers" not in request.url or found.status != 200:
            return found
        asked.append(request.url)
        page = json.loads(found.body)
        for row in page.get("items", [page]):
            row["id"] = called[row["id"]]
        return Answer(200, found.headers, json.dumps(page).encode())

    with heard(desk, answer) as client:
        frame = fl.load_transfers(client, limit=11, workers=2)
        check(sorted(frame["id"]) == sorted(called.values()), "not the same ids")
        store = fl.Store(desk.root / "ids")
        done = store.sync(client, tables="transfers", progress=False)
        check(done.new == len(theirs), f"{done.new} rows of {len(theirs)}")
        again = store.sync(client, tables="transfers", full=True, progress=False)
        check(not again.new and not again.changed, f"known again: {again}")
        check(again["transfers"].unchanged == len(theirs), f"{again}")
        oracles.sound(desk, store)
        mine = store.read("transfers")
        check({*mine["id"]} == {*called.values()}, "not the same ids in a store")
        some = [*called.values()][::7]
        check({*store.read("transfers", columns=["id"])["id"]} >= {*some}, "some are lost")


def died(desk: Desk) -> None:
    """A sync that ends in the middle leaves what it fetched to the next one, which goes on from
    there, and from what was written down where its machine ended, too; each list is asked for as
    often as a sync says that was not stopped."""
    theirs = oracles.at_the_service(desk)
    left, cut = [1 << 30], list[Path]()
    asked: Counter[str] = Counter()
    begun, came = list[int | None](), list[int]()
    lists = {"transfers": "/transfer/transfers?", "events": "/events?",
             "fiat_accounts": "/fiat-accounts?"}  # fmt: skip

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        for name, path in lists.items():
            if request.method == "GET" and path in request.url:
                if name == "transfers":
                    asked["once"] += "order_by=CREATED_AT" in request.url  # not what changed since
                    left[0] -= 1
                    if left[0] < 0:
                        shutil.copytree(*cut)  # as a machine has it that ends here
                        raise KeyboardInterrupt
                    if not desk.keys:  # else its signature would be of another
                        some = re.sub(r"\blimit=(?!1\b)\d+", "limit=10", request.url)
                        request = replace(request, url=some)
                asked[name] += 1
        query, found = parse_qs(urlsplit(request.url).query), send(request)
        pages = lists["transfers"] in request.url and query.get("order_by") == ["CREATED_AT"]
        if pages and query["limit"] != ["1"] and found.status == 200:
            since = query.get("created_at.gte")
            begun.append(None if since is None else moment(since[0]))
            came.extend(moment(row["created_at"]) for row in json.loads(found.body)["items"])
        return found

    with heard(desk, answer) as client:
        whole = fl.Store(desk.root / "counted")
        done = whole.sync(client, progress=False)
        pages = {name: done[name].pages for name in lists}
        # (before the first page a sync asks for the newest row, by when it was made and changed)
        check(all(0 <= asked[name] - pages[name] <= 3 for name in lists), f"{asked}, said: {pages}")
        fetched = {name: done[name].fetched for name in lists}
        check(fetched["transfers"] >= len(theirs), f"{fetched} of {len(theirs)} were fetched")
        total = asked["once"]
        for after, workers in sorted({(3, 1), (total - 1, 1), (6, 3)}) if not desk.keys else ():
            store = fl.Store(desk.root / f"died-{after}-{workers}")
            left[0], cut[:] = after, [store.path, desk.root / f"cut-{after}-{workers}"]
            came.clear()
            try:
                store.sync(client, workers=workers, progress=False)
            except KeyboardInterrupt:
                pass
            else:
                check(condition=False, what="an interrupt stopped nothing")
            check(not len(store.read("transfers")), "what was not published is read")
            left[0], had = 1 << 30, sorted(came) or [0]
            # it goes on where it was, and nearly there where it had no time to write down the rest
            place = len(had) - 2 * staging.FILE_ROWS - 10 - 15 * bool(desk.longest_page)
            least = had[place] if place > 0 else None
            spoilt = desk.root / f"torn-{after}-{workers}"
            shutil.copytree(cut[1], spoilt)
            for file in sorted((spoilt / ".staging" / "transfers").glob("*.arrow"))[-1:]:
                file.write_bytes(file.read_bytes()[:-9])
            for where, lowest in ((store.path, had[-1]), (cut[1], least), (spoilt, None)):
                begun.clear()
                again = fl.Store(where)
                again.sync(client, progress=False)
                check(oracles.as_read(again) == oracles.as_read(whole), f"after {after} it has "
                      "others")  # fmt: skip
                oracles.sound(desk, again)
                if workers == 1 and lowest is not None:
                    right = begun[0] is not None and begun[0] >= lowest - 15 * 60 * NS
                    check(right, f"{where.name}: it goes on from {begun[0]}, and had {had}")


def later(desk: Desk) -> None:
    """What syncs find as weeks go by: what moved, and no more; what changed without a word; what
    could not be read, is gone, and comes back."""
    copied = desk.root / "later"
    shutil.copytree(desk.store().path, copied)
    store = fl.Store(copied)
    theirs = oracles.at_the_service(desk)
    by_time = sorted(theirs, key=lambda id_: (theirs[id_]["created_at"], id_))
    aside = store.set_aside()
    was_aside = {*aside["id"]} if len(aside) else set()
    old = [id_ for id_ in by_time if id_ not in was_aside
           and moment(theirs[id_]["updated_at"]) < Virtual.now_ns - 5 * _DAY][:40]  # fmt: skip
    silent, unread, gone = old[1], old[-2], old[len(old) // 2]
    told: dict[str, Any] = {}

    def answer(request: Outgoing, send: Callable[..., Any]) -> Any:
        found = send()
        if request.method != "GET" or "/transfers" not in request.url:
            return found
        if told.get("gone") and request.url.casefold().endswith(f"/transfers/{gone}"):
            body = json.dumps({"title": "No", "status": 404}).encode()
            return Answer(404, found.headers, body)
        page = json.loads(found.body)
        if found.status != 200 or "items" not in page:
            return found
        rows = [row for row in page["items"] if not (told.get("gone") and row["id"] == gone)]
        for row in rows:
            if row["id"] == silent and "memo" in told:
                row["memo"] = told["memo"]
            if row["id"] == unread and told.get("unread"):
                row["amount"] = "1,5"
        return Answer(200, found.headers, json.dumps(page | {"items": rows}).encode())

    def stands(id_: str) -> set[str]:
        frames = [frame for frame in (store.gone(), store.set_aside()) if len(frame)]
        return {state for frame in frames for state in frame["state"][frame["id"] == id_]}

    with heard(desk, answer) as client:
        store.sync(client, full=True, progress=False)
        marks = [moment(row["updated_at"]) for row in theirs.values()]
        recent = sum(at >= max(marks) - 15 * 60 * NS for at in marks)
        done = store.sync(client, progress=False)
        fetched = done["transfers"].fetched, done["transfers"].unchanged
        check(fetched == (recent, recent), f"{recent} rows are recent, and {fetched} came: {done}")
        check(not any("looked at" in note for note in done.notes), f"within the hour: {done}")
        told |= {"memo": "another", "gone": True, "unread": True}
        looked = []
        for _ in range(6):  # a month, in which all old rows are looked at
            Virtual.now_ns += 5 * _DAY
            done = store.sync(client, progress=False)
            (said,) = [note for note in done.notes if "old transfer" in note]
            looked.append(int(re.sub(r"\D", "", said.partition("old")[0])))
        rows = len(store.read("transfers"))
        # (the newest row has its turn when there is a newer one)
        check(sum(looked) - rows in (-1, 0), f"{looked} of {rows}")
        memos = dict(store.read("transfers")[["id", "memo"]].to_numpy())
        check(memos[silent] == "another", f"what changed without a word is {memos[silent]}")
        check(stands(gone) == {"gone"}, f"what is gone is {stands(gone)}")
        check(stands(unread) == {"open"}, f"what cannot be read is {stands(unread)}")
        check(gone in memos and unread in memos, "what is gone or cannot be read is not kept")
        store.accept_gone(gone, by="clerk", reason="the service says so")
        ids = {*store.read("transfers", columns=["id"])["id"]}
        by_sql = {id_ for (id_,) in store.scan("transfers").project("id").fetchall()}
        check(ids == by_sql == memos.keys() - {gone}, f"accepted as gone: {ids ^ memos.keys()}")
        Virtual.now_ns += 31 * _DAY  # it is asked for again, and is not there
        store.sync(client, progress=False)
        check(gone not in {*store.read("transfers", columns=["id"])["id"]}, "gone, and read again")
        check("gone" not in stands(gone), f"what was accepted is {stands(gone)}")
        numbers = store.manifest().number
        store.sync(client, tables="transfers", progress=False)
        check(store.manifest().number == numbers, "nothing is new, and something was published")
        told["unread"] = False  # an ordinary sync asks for it by its id
        store.sync(client, progress=False)
        check(stands(unread) == {"read"}, f"what can be read again is {stands(unread)}")
        told["gone"] = False
        Virtual.now_ns += 31 * _DAY
        store.sync(client, progress=False)
        check("gone" not in stands(gone), f"what came back is {stands(gone)}")
        found, wanted = oracles.as_read(store), oracles.at_the_service(desk)
        off = [id_ for id_ in wanted if found[id_]["status"] != wanted[id_]["status"]]
        check(not off and found.keys() >= wanted.keys(), f"{off} is otherwise after weeks")
        oracles.sound(desk, store)


def results(desk: Desk) -> None:
    """What a sync says of itself, in each way that it is shown; and whose store and clock it may
    be."""
    path = desk.root / "fresh"
    store = fl.Store(path)
    with desk.client("payer") as client:
        done = store.sync(client, progress=False)
        counts = {name: len(store.read(name)) for name in TABLES}
        frame = done.to_frame()
        check({name: done[name].new for name in TABLES} == counts, f"{counts} came: {done}")
        check(frame["new"].to_dict() == counts and not frame["changed"].any(), f"{frame}")
        check(done.new == sum(counts.values()) and not done.changed, f"{done.new} came of {counts}")
        refuses(lambda: done["transfer"], by=KeyError)
        (left := path / "runs" / f".sync.json.{'0' * 32}.tmp").write_bytes(b"")
        seen = done["balances"]
        check((seen.fetched, seen.changed, seen.unchanged, seen.pages) == (seen.new, 0, 0, 0), "of "
              f"balances it is said: {seen}")  # fmt: skip
        html = done._repr_html_()
        check(f"{done.new:,} new rows" in html and "0 changed" in html, "as a card")
        check(done.to_json()["store"] == str(path) and len(done.to_json()["tables"]) == len(TABLES),
              f"{done.to_json()}")  # fmt: skip
        again = store.sync(client, progress=False)
        check(not left.exists(), "what a killed run left half written is still there")
        others = [entry for entry in again.tables if entry.table != "balances"]
        check(not any(entry.new or entry.changed or entry.part for entry in others), f"{again}")
        began = str(fl.base.values.Instant.from_ns(Virtual.now_ns))
        one = store.sync(client, tables="events", progress=False)
        check([entry.table for entry in one.tables] == ["events"], f"of events: {one}")
        check("Nothing new" in one._repr_html_() and not one.new, f"nothing came, yet: {one}")
        ended = str(fl.base.values.Instant.from_ns(Virtual.now_ns))
        noted = store.runs()["sync"]
        check({*noted["tables"]} == {*TABLES}, f"noted is {noted}")
        at = noted["at"]
        known = noted["tables"]["events"]
        check(began < known == one.at <= at <= ended, f"{noted}, {began} to {ended}")
        check(noted["tables"]["transfers"] < began, f"transfers at {noted}")
        found = store.verify()
        check(store.runs()["verify"]["problems"] == found.count, f"noted of {found}")
        two = store.sync(client, tables=["balances"], progress=False)
        check({entry.table for entry in two.tables} == {"transfers", "balances"}, f"{two}")
        # a store begins where it is told to, and a full sync goes back to the first row
        theirs = oracles.at_the_service(desk)
        moments = sorted(moment(row["created_at"]) for row in theirs.values())
        begin = moments[len(moments) // 2]
        for workers in (1, 3):
            part = fl.Store(desk.root / f"from-{workers}")
            since = str(fl.base.values.Instant.from_ns(begin))
            part.sync(client, since=since, workers=workers, progress=False)
            wanted = {id_ for id_, row in theirs.items() if moment(row["created_at"]) >= begin}
            found = {*part.read("transfers")["id"]}
            check(found == wanted, f"since {since} by {workers}: {found ^ wanted}")
            check(len(part.read("events")) <= counts["events"], "events since")
            part.sync(client, full=True, workers=workers, progress=False)
            check(oracles.as_read(part) == oracles.as_read(store), "not all after a full sync")
            oracles.sound(desk, part)
        # whose it is
        for hours, way in ((-25, "ahead of"), (25, "behind"), (23, ""), (-23, "")):

            def dated(_: Outgoing, send: Callable[..., Any], hours: int = hours) -> Any:
                """By the clock of a service that is ``hours`` ahead."""
                found = send()
                at = formatdate(Virtual.now_ns // NS + hours * 3600, usegmt=True)
                found.headers["Date"] = at
                return found

            other = fl.Store(desk.root / f"clock{hours}")
            with heard(desk, dated) as wrong:
                if way:
                    refuses(lambda: other.sync(wrong, progress=False), f"25 hours {way}",  # noqa: B023
                            by=StoreError)  # fmt: skip
                else:
                    check(other.sync(wrong, progress=False).new == done.new, f"by {hours} h")
        behind = fl.Store(path, clock=lambda: Virtual.now_ns - _DAY - 7200 * NS)
        refuses(lambda: behind.sync(client, progress=False), "was last written at", by=StoreError)
    manifest = json.loads(max((path / "manifests").glob("*.json")).read_bytes())
    check(manifest["manifest"]["service"]["client_id"] == desk.client_id, f"whose: {manifest}")
    others = desk.control.add_credential("other", [*fl.models.SCOPES])
    with desk.client("payer", client_id=others["client_id"],
                     client_secret=others["client_secret"]) as client:  # fmt: skip
        refuses(lambda: store.sync(client, progress=False), "holds the data of", by=StoreError)


# ------------------------------------------------------------------------------ elsewhere


def elsewhere(desk: Desk) -> None:
    """A store in memory, below a folder of another filesystem, and what is no place for one."""
    import fsspec

    home, os.environ["HOME"] = os.environ.get("HOME", ""), str(desk.root / "home")
    os.environ["AWS_SKIP_SIGNATURE"] = "true"  # nobody asks anybody for credentials
    base = desk.root / "shelf"
    (base / "below").mkdir(parents=True)
    inner = fs.SubTreeFileSystem(str(base), fs.LocalFileSystem())
    python = fsspec.filesystem("dir", path=str(base), fs=fsspec.filesystem("file", auto_mkdir=True))
    places: list[tuple[str, dict[str, Any]]] = [
        (f"memory://books-{desk.seed}-{Virtual.now_ns}/funds", {}),
        ("books/funds", {"filesystem": fs.SubTreeFileSystem("below", inner)}),
        ("other/funds/", {"filesystem": python}),
    ]
    try:
        for wrong, more, said in (
            (Path("s3://bucket/books"), {}, "a Path makes one slash"),
            ("memory:///", {}, "name a folder"), ("", {"filesystem": inner}, "name a folder"),
            ("nosuch://a/b", {}, "cannot be opened"), ("a", {"filesystem": 7}, "give one of"),
            ("memory://a/b*c", {}, "for patterns"),
        ):  # fmt: skip
            refuses(lambda wrong=wrong, more=more: fl.Store(wrong, **more), said)  # type: ignore[misc]
        check(str(fl.Store(f"file://{base}/plain").path) == f"{base}/plain", "a folder, as a URI")
        for uri, key in (("s3://bucket/books/", "bucket/books"), ("gcs://bucket/a", "bucket/a")):
            found = locate(uri)
            assert isinstance(found, RemotePath)
            got = found.key, str(found), found.creates, found.resolve(), found.filesystem.type_name
            kind = uri.partition(":")[0]
            check(got == (key, f"{kind}://{key}", True, found, f"py::{kind}"), f"{uri} is {got}")
        try:
            fl.Store("nosuch://somebody:password@a/b")
        except InvalidRequest as error:
            check("password" not in str(error) and "nosuch://a/b" in str(error), f"{error}")
        named = [fl.Store(where, **more).path for where, more in places]
        text = [str(path).rpartition("://")[2] for path in named]
        right = all(one.endswith(("books/funds", "other/funds", "/funds")) for one in text)
        check(right and len({path.scratch for path in named}) == 3, f"{text} on {named}")
        local_fs = fl.Store(f"{base}/plain", filesystem=fs.LocalFileSystem())
        check(local_fs.path == Path(base / "plain"), "a folder of Arrow's")
        place, given = places[desk.seed % 3]
        here = desk.store()
        with desk.client("clerk") as client:
            here.sync(client, progress=False)
            store = fl.Store(place, **given)
            check(store.path.name == "funds" and store.path.parent.name, f"{store.path} is it")
            check(not len(store.read("transfers")), f"{place}: rows of nobody")
            try:
                done = store.sync(client, progress=False)
            except StoreError as error:  # what cannot promise that one of two is told
                check("reading only" in str(error) and desk.seed % 3 == 1, f"{place}: {error}")
                return
            mine, theirs = oracles.as_read(store), oracles.at_the_service(desk)
            check(mine.keys() == theirs.keys(), f"{place}: not the same transfers")
            local = oracles.held(here)
            off = [id_ for id_ in mine if mine[id_] != local[id_]]
            check(not off, f"{place}: {off} is another than here")
            check(done["transfers"].new == len(mine), f"{place}: {done}")
            store.pin("question")
            id_ = min(mine)
            store.annotate(id_, comment="far away", by="clerk")
            again = fl.Store(place, **given)
            check("question" in again.pins(), f"{place}: a pin is lost")
            said = [one.content.get("comment") for one in again.records()]
            check("far away" in said, f"{place}: an annotation is lost")
            check(again.manifest().number == store.manifest().number, "read anew it is another")
            check(not again.sync(client, progress=False)["events"].new, f"{place}: synced again")
            for _ in range(2):
                again.compact()
            check(oracles.as_read(fl.Store(place, **given), "question") == mine, f"{place}: pinned")
            found = again.verify()
            check(not found.is_damaged, f"{place}: {found}")
            ((count,),) = again.scan("transfers").aggregate("COUNT(*)").fetchall()
            check(count == len(mine), f"{place}: by SQL {count} of {len(mine)}")
            if place.startswith("memory:"):
                again.publish(str(again.path.parent / "open"))
                months = list((again.path.parent / "open" / "transfers").iterdir())
                files = [pa.BufferReader((month / "rows.parquet").read_bytes()) for month in months]
                rows = [id_ for file in files for id_ in pq.read_table(file)["id"].to_pylist()]
                check(sorted(rows) == sorted(mine), f"{place}: {len(rows)} published, {len(mine)}")
                refuses(lambda: again.publish(str(again.path / "open")), "within the store")
            # a file that is lost there is missed
            part = next(one for one in (again.path / "transfers").iterdir()
                        if one.name.endswith(".parquet"))  # fmt: skip
            check(part.exists() and not part.is_dir() and (again.path / "transfers").is_dir(), "is")
            check(part.size() == len(part.read_bytes()), f"{part} has another size")
            part.unlink()
            part.unlink(missing_ok=True)
            refuses(part.unlink, by=FileNotFoundError)
            check(not part.exists(), f"{part} was removed, and is there")
            refuses(lambda: fl.Store(place, **given).read("transfers"), part.name, by=StoreDamaged)
    finally:
        os.environ["HOME"] = home
        del os.environ["AWS_SKIP_SIGNATURE"]
        _forget_memory()


def _forget_memory() -> None:
    """What fsspec keeps in memory outlives a run."""
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def objects(desk: Desk) -> None:
    """What a bucket holds is read at any position, said to be what it is, and made only once where
    it is to be new."""
    handler = Objects(MemoryStore(), "s3", "books")
    bucket = fs.PyFileSystem(handler)
    content = bytes(random.Random(desk.seed).randbytes(200_000))
    file = desk.root / "object"
    for name, some in (("large", content), ("small", content[:100]), ("none", b"")):
        file.write_bytes(some)
        handler.put_file(str(file), f"books/a/{name}")
        with bucket.open_input_file(f"books/a/{name}") as opened:
            check(opened.read() == some and opened.size() == len(some), f"{name} is another")
            for at, size in ((0, 10), (100, 100_000), (199_000, 5_000), (134_463, 3), (134_464, 2),
                             (134_465, 70_000), (50, 0)):  # fmt: skip
                opened.seek(min(at, len(some)))
                check(opened.tell() == min(at, len(some)), f"{name} at {opened.tell()}, not {at}")
                found = opened.read(size)
                check(found == some[at : at + size], f"{name} from {at} on is another")
                check(opened.tell() == min(at, len(some)) + len(found), f"then at {opened.tell()}")
    large = bucket.get_file_info("books/a/large")
    got = large.type, large.size, large.path, large.mtime_ns is not None
    check(got == (fs.FileType.File, 200_000, "books/a/large", True), f"it is {got}")
    for path, kind in (("books/a", fs.FileType.Directory), ("books/b", fs.FileType.NotFound)):
        check(bucket.get_file_info(path).type == kind, f"{path} is {bucket.get_file_info(path)}")
    names = sorted(one.base_name for one in bucket.get_file_info(fs.FileSelector("books/a")))
    check(names == ["large", "none", "small"], f"there is {names}")
    above = [(one.path, one.type) for one in bucket.get_file_info(fs.FileSelector("books"))]
    check(above == [("books/a", fs.FileType.Directory)], f"there is {above}")
    handler.pipe_file("books/a/new", b"1", mode="create")
    refuses(lambda: handler.pipe_file("books/a/new", b"2", mode="create"), "books/a/new",
            os.strerror(errno.EEXIST), by=FileExistsError)  # fmt: skip
    handler.pipe_file("books/a/new", b"3", mode="overwrite")
    with bucket.open_input_file("books/a/new") as opened:
        check(opened.read() == b"3", "what was written over it is not there")
    bucket.move("books/a/new", "books/b/moved")
    with bucket.open_input_file("books/b/moved") as opened:
        check(opened.read() == b"3", "what was moved is not there")
    refuses(lambda: bucket.open_input_file("books/a/new"), os.strerror(errno.ENOENT),
            by=FileNotFoundError)  # fmt: skip
    bucket.delete_file("books/b/moved")
    check(bucket.get_file_info("books/b/moved").type == fs.FileType.NotFound, "removed, and there")


def published(desk: Desk) -> None:
    """Rows for other engines, as a Delta table and as files by month: each once; what did not
    change is not written again; a month that is there no more goes."""
    import deltalake
    import fsspec

    store, folder = desk.store(), desk.root / "open"
    held = oracles.held(store)
    created = dict(store.read("transfers", columns=["id", "created_at"]).to_numpy())
    months = Counter(f"{at:%Y-%m}" for at in created.values())
    last = max(months)

    def delta() -> dict[str, tuple[Any, ...]]:
        """By deltalake alone."""
        table = deltalake.DeltaTable(str(folder / "delta" / "transfers"))
        rows = pa.table(table.to_pyarrow_table()).to_pylist()
        check(len(rows) == len({row["id"] for row in rows}), "a row is there twice, as Delta")
        named = {row["month"] for row in rows}
        check(named <= months.keys(), f"months are {named}")
        return {row["id"]: (row["status"], row["amount"], row["updated_at_ns"]) for row in rows}

    def plain() -> dict[str, tuple[Any, ...]]:
        return by_id((folder / "plain" / "transfers").rglob("*.parquet"))

    def renamed() -> dict[str, tuple[Any, ...]]:
        """By fsspec alone, of a place whose files are written hidden, and renamed."""
        memory = fsspec.filesystem("memory")
        files = memory.find(f"{elsewhere}/transfers")
        others = [name for name in files if not name.endswith("/rows.parquet")]
        check(not others, f"where others see it there is {others}")
        folders = memory.ls(f"{elsewhere}/transfers", detail=False)
        there = {name.rpartition("/")[2] for name in folders}
        named = {name.split("/")[-2] for name in files}
        check(there == named, f"of months that are not there any more there is {there - named}")
        return by_id(memory.open(name) for name in files)

    def by_id(files: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
        rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        check(len(rows) == len({row["id"] for row in rows}), "a row is there twice")
        return {row["id"]: (row["status"], row["amount"], row["updated_at_ns"]) for row in rows}

    wanted = {id_: (row["status"], Decimal(str(row["amount"])), row["updated_at"])
              for id_, row in held.items()}  # fmt: skip
    small = fl.Store(desk.root / "small")
    with desk.client("clerk") as client:
        newest = max(created.values())
        small.sync(client, since=f"{newest:%Y-%m}-01", progress=False)
    few = {*small.read("transfers")["id"]}
    _forget_memory()
    elsewhere = "memory://elsewhere"
    for kind, place, there in (
        ("delta", folder / "delta", delta), ("parquet", folder / "plain", plain),
        ("parquet", elsewhere, renamed),
    ):  # fmt: skip
        first = store.publish(place, format=kind)["transfers"]  # type: ignore[arg-type]
        check(there() == wanted, f"published as {kind}, it is otherwise")
        got = sorted(first.written), first.kept, first.removed
        check(got == (sorted(months), 0, ()) and first.bytes > 0, f"{kind}: {first}")
        if there is plain:
            size = sum(file.stat().st_size for file in (place / "transfers").rglob("*.parquet"))
            check(first.bytes == size, f"{first.bytes} bytes of {size}")
        again = store.publish(place, format=kind)["transfers"]  # type: ignore[arg-type]
        got = again.written, again.kept, again.removed, again.bytes
        check(got == ((), len(months), (), 0), f"{kind}, again: {again}")
        less = small.publish(place, format=kind)["transfers"]  # type: ignore[arg-type]
        check(there().keys() == few, f"{kind}: of fewer rows there is {len(there())}")
        gone = tuple(sorted(months.keys() - {last}))
        check((less.removed, less.written + (last,) * less.kept) == (gone, (last,)), f"{less}")
        back = store.publish(place, format=kind)["transfers"]  # type: ignore[arg-type]
        check(there() == wanted and back.kept == less.kept, f"{kind}, back again: {back}")
    # others write, too
    table = deltalake.DeltaTable(str(folder / "delta" / "transfers"))
    table.optimize.compact()
    done = store.publish(folder / "delta", format="delta")["transfers"]
    check(not done.written and done.kept == len(months), f"after OPTIMIZE: {done}")
    table = deltalake.DeltaTable(str(folder / "delta" / "transfers"))
    table.delete(f"month = '{last}'")
    done = store.publish(folder / "delta", format="delta")["transfers"]
    check(delta() == wanted and {*done.written} == {*months}, f"after a DELETE: {done}")
    table = deltalake.DeltaTable(str(folder / "delta" / "transfers"))
    names = pa.table(table.get_add_actions(flatten=True)).column_names
    check("min.amount" not in names and "min.id" in names, f"the log has {names}")
    (folder / "plain" / "transfers" / f"month={last}" / "rows.parquet").write_bytes(b"no rows")
    done = store.publish(folder / "plain")["transfers"]
    check(done.written == (last,) and plain() == wanted, f"after a file was spoilt: {done}")
    refuses(lambda: store.publish(store.path, format="delta"), "within the store")
    (folder / "file").write_text("")
    refuses(lambda: store.publish(folder / "file"), by=StoreError)


def scanned(desk: Desk) -> None:
    """By SQL there is what is read: now, at a pin, when it settled, of an empty table."""
    store = desk.store()
    rows = oracles.as_read(store)
    own = duckdb.connect()
    for given in ({}, {"memory_limit": "300MB"}, {"connection": own}, {"settled": True}):
        found = store.scan("transfers", **given)  # type: ignore[arg-type]
        some = dict(found.project("id, CAST(total AS VARCHAR)").fetchall())
        check(some.keys() == rows.keys(), f"with {given} there is {some.keys() ^ rows.keys()}")
        off = [id_ for id_ in rows if dec(some[id_]) != rows[id_]["total"]]
        check(not off, f"with {given} {off} comes to something else")
    settled = store.read("transfers", settled=True)[["id", "settled_at"]]
    times = {id_: None if at is None else at for id_, at in store.scan("transfers", settled=True)
             .project("id, epoch_ns(settled_at)").fetchall()}  # fmt: skip
    mine = {id_: None if pd.isna(at) else at.value for id_, at in settled.to_numpy()}
    check(times == mine, "by SQL they settled at other times")
    refuses(lambda: store.scan("transfers", connection=own, memory_limit="1GB"),
            "give either connection")  # fmt: skip
    refuses(lambda: store.scan("transfers", memory_limit="much"), "memory_limit='much'")
    own.close()
    for pin in [*store.pins()][:2]:
        known = oracles.as_read(store, pin)
        ids = {id_ for (id_,) in store.scan("transfers", pin=pin).project("id").fetchall()}
        check(ids == known.keys(), f"at {pin} by SQL: {ids ^ known.keys()}")
    refuses(lambda: store.compact(tables=7), "give a text or a list of texts")  # type: ignore[arg-type]
    check(repr(rows and store).count(str(store.path)) == 1, f"{store!r}")
    for table in TABLES:
        ((count,),) = store.scan(table).aggregate("COUNT(*)").fetchall()
        check(count == len(store.read(table)), f"{table}: by SQL {count}")


# ------------------------------------------------------------------------------ damage


def spoilt(desk: Desk) -> None:
    """A file of a copy that is another's, longer, shorter, or of another time is not read as if it
    were what was written."""
    whole, copied = desk.store().path, desk.root / "spoilt"
    assert isinstance(whole, Path)
    wanted = oracles.as_read(fl.Store(whole))
    newest = max((whole / "manifests").glob("*.json"))
    manifest = json.loads(newest.read_bytes())["manifest"]
    parts = [name for name, *_ in manifest["files"]["transfers"]]
    part = f"transfers/{parts[-1]}"
    content = (whole / part).read_bytes()
    other = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["a"]}), other)
    events = [name for name, *_ in manifest["files"]["events"]]
    earlier = max((whole / "manifests").glob("*.json"), key=lambda one: (one != newest, one.name))

    def reads() -> Any:
        store = fl.Store(copied)
        return store.records(), store.read("transfers", columns=["id"]), store.runs()

    def by_sql() -> Any:
        return fl.Store(copied).scan("transfers").aggregate("COUNT(*)").fetchall()

    shutil.copytree(whole, copied)
    Virtual.now_ns += 3 * NS  # what was looked at a while ago is known, until it is another
    check(by_sql() == [(len(wanted),)], "by SQL there is another number of rows")
    (copied / part).write_bytes(bytes([*content[:40], content[40] ^ 1, *content[41:]]))
    refuses(by_sql, "is not what was written", by=StoreDamaged)
    (copied / part).write_bytes(content)
    noted = (whole / "runs" / "sync.json").read_bytes()
    verified = desk.seed % 16
    for number, (name, new, said) in enumerate((
        (part, content[:4] + b"\0" + content[4:], ("bytes instead of",)),
        (part, content[:-1], ("cut short",)), (part, b"", ("cut short",)),
        (part, content[:-4] + b"PAR2", ()),
        (part, content[:-8] + bytes(4) + content[-4:], ()),
        (part, other.getvalue().to_pybytes(), ()),
        (part, (whole / "events" / events[-1]).read_bytes(), ()),
        (part, None, ("missing",)),
        ("head", None, ("missing",)), ("head", b"no", ()),
        ("head", b'[1, "a"]', ("names manifest 1",)),
        ("head", json.dumps([manifest["number"], "a"]).encode(), ("not the one",)),
        ("head", json.dumps([manifest["number"] + 1, "a"]).encode(), ("is missing",)),
        (f"manifests/{newest.name}", None, ("missing",)),
        (f"manifests/{newest.name}", newest.read_bytes()[:-2], ()),
        (f"manifests/{newest.name}", earlier.read_bytes(), ()),
        *((f"records/{one.name}", one.read_bytes().replace(b'"kind"', b'"king"'), ())
          for one in sorted((whole / "records").glob("*.json"))[-1:]),
        ("runs/sync.json", noted[:-1], ()),
        ("runs/sync.json", noted.replace(b'"at"', b'"as"'), ()),
    )):  # fmt: skip
        there = copied / name
        kept = there.read_bytes()
        if new is None:
            there.unlink()
        else:
            there.write_bytes(new)
        if name == part:
            refuses(by_sql, Path(name).name.partition(".")[0], by=StoreDamaged)
        try:
            reads()
        except StoreDamaged as error:
            text = str(error)
            right = Path(name).name.partition(".")[0] in text or "manifest" in text
            check(right and all(one in text for one in said), f"{name}, {said}: {text}")
        else:
            check(name == "head" or new is None, f"{name} was {said or 'altered'}, and is read")
        if number == verified:  # it is dear
            found = fl.Store(copied).verify()
            check(found.is_damaged, f"{name} was {said or 'altered'}, and verify says {found}")
        there.write_bytes(kept)
    check(oracles.as_read(fl.Store(copied)) == wanted, "as it was, it is read otherwise")
    fl.Store(copied).pin("spoilt")
    mended = copied / part
    mended.write_bytes(content[:-1])
    with desk.client("clerk") as client:
        done = fl.Store(copied).repair(client)
        check(part.partition("/")[2] in str(done), f"of a part that was cut repair says {done}")
    found = fl.Store(copied).verify()
    said = [str(one) for one in found.problems]
    others = [one for one in said if "spoilt" not in one and not one.startswith("balances:")]
    check(not others, f"after a repair: {others}")
    refuses(lambda: fl.Store(copied).read("transfers", pin="spoilt"), "'spoilt'",
            "lost before the repair", by=StoreDamaged)  # fmt: skip
    mended_store = fl.Store(copied)
    check(len(mended_store.read("events", pin="spoilt")), "what was not lost is not read")
    mended_store.pin("mended")
    again = oracles.as_read(mended_store)
    check(oracles.as_read(mended_store, "mended") == again, "pinned since, it is read otherwise")
    theirs = oracles.at_the_service(desk)
    check(theirs.keys() <= again.keys(), f"not mended: {theirs.keys() - again.keys()}")
