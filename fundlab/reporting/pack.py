"""The close pack: what a closed period is signed and audited by, as a page, a workbook and tables.

Everything in it comes from the record of the close and the pin it names, so that who has the store
can have every file made again (:func:`reperform`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from markupsafe import Markup

from fundlab.analysis import balances, flows
from fundlab.analysis.closing import BRIDGE, CAUSES
from fundlab.analysis.reconcile import judge
from fundlab.charts import humanise
from fundlab.decimals import DecimalDtype
from fundlab.display import Cell, Table
from fundlab.errors import InvalidRequest, StoreError
from fundlab.exports import Sheet, replacing, write_csv, write_workbook
from fundlab.paths import local_path
from fundlab.reporting.close import figures_of
from fundlab.reporting.inputs import ASSET, COMPLETE, Relation, Span, frame_of, moment
from fundlab.reporting.page import HERE, TEMPLATES
from fundlab.reporting.page_tables import (
    identifier,
    money,
    number,
    short,
    table,
    text,
    time_cell,
    type_name,
    words,
)
from fundlab.reporting.report_files import arrow_of, one_run_at_a_time
from fundlab.store import TableStore
from fundlab.store.closes import Close, annotations_table, closes_of
from fundlab.store.judgement import KEYS, Judgement
from fundlab.store.records import Record, canonical
from fundlab.store.scan import queries
from fundlab.tables import TABLES
from fundlab.values import exact_sum, money_text

ALL: Final = "All profiles"
MANIFEST: Final = "pack.json"
_SUFFIXES: Final = (".html", ".xlsx", ".csv", ".json")
_SIDES: Final = {
    "opening": "opening", "receipt": "receipts", "disbursement": "disbursements",
    "conversion": "conversions", "internal": "internal", "fee": "fees",
    "unexplained": "unexplained", "closing": "closing",
}  # fmt: skip
_AGES: Final = ((1, "0–1 days"), (5, "2–5 days"), (30, "6–30 days"), (60, "31–60 days"),
                (90, "61–90 days"), (10**6, "over 90 days"))  # fmt: skip
_DAY: Final = pd.Timedelta(days=1)


@dataclass(frozen=True)
class Pack:
    """The tables of a close by the names of their files, and the facts beside them."""

    close: Close
    facts: Mapping[str, str]
    verdict: str
    unexplained: str
    proved: bool
    exceptions: tuple[str, ...]
    frames: Mapping[str, pd.DataFrame]


@queries
def read_pack(store: TableStore, close: Close, records: list[Record]) -> Pack:
    """The pack of ``close`` from its pin; ``records`` are those known when it was written."""
    content, pin = close.content, close.pin
    judgement = judge(store, pin=pin)
    transfers = store.scan("transfers", settled=close.basis == "settled", pin=pin)
    lines = close.lines
    places = lines["line"].map(_SIDES)
    sides = pd.DataFrame(
        {name: lines["amount"].where(places == name, Decimal(0)) for name in _SIDES.values()}
    ).astype(DecimalDtype())
    keyed = pd.concat([lines[KEYS], sides], axis=1)
    sums = keyed.groupby(["asset", "profile_id"], as_index=False)[list(sides)].sum()
    roll = with_totals(pd.DataFrame(sums))
    notes = annotations_table(records)
    decided = notes[notes["decision"].notna()].reset_index(drop=True)
    restated, accepted = content["restates"], content["accepted"]
    bridge = pd.DataFrame([] if restated is None else restated["bridge"], columns=[*BRIDGE])
    for name in ("then", "now", "difference"):
        bridge[name] = exact_column(map(Decimal, bridge[name]))
    items = open_items(close, records, frame_of(flows.settlement_time(transfers)))
    totals = Span(None, close.end).of(transfers).filter(COMPLETE).aggregate(
        f"{ASSET} AS asset, count(*) AS count, sum(amount) AS amount, sum(fee) AS fee, "
        "sum(total) AS total", ASSET,
    )  # fmt: skip
    sizes = {
        name: store.read_arrow(name, columns=[table.key[0]], pin=pin).num_rows
        for name, table in TABLES.items()
    }
    data = [(name, close.limit(name), size) for name, size in sizes.items()]
    exceptions = []
    if accepted is not None:
        exceptions = [f"Closed in spite of this, because: {accepted['reason']}"]
        exceptions += accepted["problems"]
    if restated is not None:
        old = restated["hash"][:16]
        exceptions.append(f"Restates the close {old}, because: {restated['reason']}")
    gaps = judgement.broken.groupby("asset")["difference"].sum()
    return Pack(
        close,
        facts_of(close, store.service() or {}, sorted({*lines["profile_id"]})),
        content["figures"]["text"],
        ", ".join(f"{money_text(gap)} {asset}" for asset, gap in gaps.items()) or "none",
        judgement.breaks == 0,
        tuple(exceptions),
        {
            "roll-forward": roll,
            "lines": lines,
            "reconciliation": reconciliation(roll, judgement, transfers, close),
            "proof-of-cash": proof_of_cash(roll, judgement, pd.Timestamp(content["first"])),
            "open-items": items,
            "ageing": aged(items),
            "restatements": bridge,
            "decisions": decided[["item_id", "decision", "comment", "by", "at"]],
            "control-totals": frame_of(totals.order("asset")),
            "data": pd.DataFrame(data, columns=["table", "publication", "rows"]),
        },
    )


def facts_of(close: Close, service: Mapping[str, str], profiles: list[str]) -> dict[str, str]:
    content = close.content
    first, end = (content[name][:19] for name in ("first", "end"))
    basis = "settled" if close.basis == "settled" else "were created"
    command = f"fundlab close {close.period}"
    made = sorted(content["versions"].items())
    return {
        "Entity": f"{service.get('client_id', '–')} at {service.get('base_url', '–')}",
        "Profiles": ", ".join(profiles) or "–",
        "Period": f"{close.period}: {first}Z to {end}Z, excluded; days in {close.tz}",
        "Basis": f"by when transfers {basis}",
        "Known at": content["known_at"],
        "Closed at": close.record.at,
        "Prepared by": content["by"] or "–",
        "Note": content["note"] or "–",
        "Pin": close.pin,
        "Record": f"{close.record.seq}, SHA-256 {close.hash}",
        "Made by": command if close.basis == "settled" else f"{command} --basis {close.basis}",
        "Performed again by": "fundlab reperform DIR --store STORE",
        "Versions": ", ".join(f"{name} {found}" for name, found in made),
    }


def reconciliation(
    roll: pd.DataFrame, judgement: Judgement, transfers: Relation, close: Close
) -> pd.DataFrame:
    """From the closing to what the service reports: what settled after the period, what pending
    debits hold, and what was learned since the balance was observed; then the difference."""
    end = moment(2**62)
    booked = frame_of(balances.at(transfers, end, judgement.opening, basis=close.basis))
    held = frame_of(balances.holds(transfers))[[*KEYS, "held"]]
    known = judgement.table[[*KEYS, "rebuilt", "reported", "difference"]]
    both = roll.loc[roll["profile_id"] != ALL, [*KEYS, "closing"]]
    for other in (booked, held, known):
        both = both.merge(other, on=KEYS, how="outer")
    for name in ("closing", "balance", "held"):
        both[name] = both[name].astype(DecimalDtype()).fillna(0)
    both["moved_after"] = both["balance"] - both["closing"]
    both["held"] = -both["held"]
    both["rebuilt"] = both["rebuilt"].fillna(both["balance"] + both["held"])
    both["learned_since"] = both["rebuilt"] - both["balance"] - both["held"]
    names = ["asset", "profile_id", "closing", "moved_after", "held", "learned_since", "rebuilt",
             "reported", "difference"]  # fmt: skip
    return both.sort_values(["asset", "profile_id"], ignore_index=True)[names]


def proof_of_cash(roll: pd.DataFrame, judgement: Judgement, first: pd.Timestamp) -> pd.DataFrame:
    """Both sides of each balance. The service reports balances only: its side is ours, and what
    the last observation before the period, and the last of all, differed by."""
    seen = judgement.observations
    before = seen[seen["observed_at"] < first].groupby(KEYS)["difference"].last()
    known = judgement.table.dropna(subset=["reported"]).set_index(KEYS)["difference"]
    rows: list[tuple[Any, ...]] = []
    for row in roll[roll["profile_id"] != ALL].to_dict("records"):
        pair = row["profile_id"], row["asset"]
        moves = [max(row[name], Decimal(0)) for name in ("conversions", "internal")]
        come = exact_sum([row["receipts"], *moves])
        gone = exact_sum([row["closing"], -row["opening"], -come])
        place = row["asset"], row["profile_id"]
        rows.append((*place, "books", row["opening"], come, gone, row["closing"]))
        service = [
            exact_sum([row[name], off[pair]]) if pair in off.index else None
            for name, off in (("opening", before), ("closing", known))
        ]
        rows.append((*place, "service", service[0], None, None, service[1]))
    names = ["asset", "profile_id", "side", "opening", "receipts", "disbursements", "closing"]
    found = pd.DataFrame(rows, columns=names)
    for name in names[3:]:
        found[name] = exact_column(found[name])
    return found


def exact_column(amounts: Iterable[Any]) -> pd.Series[Any]:
    return pd.Series([None if pd.isna(one) else one for one in amounts], dtype=DecimalDtype())


def with_totals(sides: pd.DataFrame) -> pd.DataFrame:
    """The rows of each asset, and their sum below them."""
    amounts = list(sides.columns[2:])
    sums = sides.groupby("asset", as_index=False)[amounts].sum().assign(profile_id=ALL)
    both = pd.concat([sides.assign(last=0), sums.assign(last=1)], ignore_index=True)
    both = both.sort_values(["asset", "last", "profile_id"], kind="stable", ignore_index=True)
    return both[["asset", "profile_id", *amounts]]


def open_items(close: Close, records: list[Record], settled: pd.DataFrame) -> pd.DataFrame:
    """The items of the close with their age, owner, comment, and when they should clear: nine in
    ten of their type settle within that time."""
    notes: dict[str, dict[str, str]] = {}
    for record in records:
        if record.kind == "annotate":
            mine = notes.setdefault(record.content["item_id"], {})
            mine |= {k: v for k, v in record.content.items() if v and k != "item_id"}
    usual = dict(zip(settled["type"], settled["p90"], strict=True))
    rows = []
    end = moment(close.end)
    for item in close.content["open_items"]:
        created, note = pd.Timestamp(item["created_at"]), notes.get(item["id"], {})
        cleared = item["cleared_at"]
        rows.append({
            "created_at": created,
            "age": next(name for days, name in _AGES if (end - created) // _DAY <= days),
            "type": item["type"], "asset": item["asset"], "profile_id": item["profile_id"],
            "total": Decimal(item["total"]),
            "cause": "pending" if cleared is None else "cleared after the period",
            "owner": note.get("owner"), "comment": note.get("comment"),
            "expected": created + usual[item["type"]] if item["type"] in usual else None,
            "cleared_at": None if cleared is None else pd.Timestamp(cleared),
            "id": item["id"],
        })  # fmt: skip
    names = ["created_at", "age", "type", "asset", "profile_id", "total", "cause", "owner",
             "comment", "expected", "cleared_at", "id"]  # fmt: skip
    frame = pd.DataFrame(rows, columns=names)
    for name in ("created_at", "expected", "cleared_at"):
        frame[name] = pd.to_datetime(frame[name], utc=True).astype("datetime64[ns, UTC]")
    for name in ("age", "type", "asset", "profile_id", "cause", "owner", "comment", "id"):
        frame[name] = frame[name].astype("string")
    return frame.assign(total=exact_column(frame["total"]))


def aged(items: pd.DataFrame) -> pd.DataFrame:
    """``asset``, ``age``, ``count``, ``total`` of the open items, the youngest first."""
    order = [name for _, name in _AGES]
    sums = items.groupby(["asset", "age"]).agg(count=("id", "size"), total=("total", "sum"))
    found = sums.reset_index()
    found["place"] = found["age"].map({name: place for place, name in enumerate(order)})
    return found.sort_values(["asset", "place"], ignore_index=True).drop(columns="place")


def write_pack(store: TableStore, close: Close, out: str | os.PathLike[str]) -> list[Path]:
    """The pack of ``close`` in the folder ``out``: ``close-2026-10.html``, ``.xlsx``, one
    ``close-2026-10.<table>.csv`` for each table, the record ``close-2026-10.json``, and
    ``pack.json``, which names the SHA-256 of each, and those of other packs in the folder. The same
    close gives the same bytes, as long as no more is annotated. Returns the files, the page first.

    Raises ``InvalidRequest`` where ``pack.json`` of other packs is damaged."""
    records = store.records()
    return _write(store, close, records, local_path(out, "out"))


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """``close``, ``records`` and ``files`` of each pack in ``folder``, by its stem."""
    try:
        packs = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return {
            str(stem): {
                "close": str(pack["close"]),
                "records": int(pack["records"]),
                "files": {str(name): str(digest) for name, digest in pack["files"].items()},
            }
            for stem, pack in packs.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidRequest(f"{MANIFEST} is not what was written") from None


def _write(store: TableStore, close: Close, records: list[Record], folder: Path) -> list[Path]:
    pack = read_pack(store, close, records)
    stem = file_stem(close)
    files: list[Path] = []

    def write(name: str, content: bytes) -> None:
        files.append(folder / name)
        with replacing(files[-1]) as unfinished:
            unfinished.write_bytes(content)

    with one_run_at_a_time(folder):
        packs = _read_manifest(folder)
        write(f"{stem}.html", render_pack(pack).encode())
        files.append(folder / f"{stem}.xlsx")
        sheets = [Sheet(name.replace("-", " ").capitalize(), arrow_of(frame))
                  for name, frame in pack.frames.items()]  # fmt: skip
        facts = {"Verdict": pack.verdict, "Unexplained": pack.unexplained, **pack.facts}
        about = pa.table({"fact": list(facts), "value": list(facts.values())})
        with replacing(files[-1]) as unfinished:
            write_workbook([Sheet("Close", about), *sheets], unfinished)
        for name, frame in pack.frames.items():
            files.append(folder / f"{stem}.{name}.csv")
            with replacing(files[-1]) as unfinished:
                write_csv(arrow_of(frame), unfinished)
        write(f"{stem}.json", canonical(dict(close.content)) + b"\n")
        packs[stem] = {
            "close": close.hash,
            "records": len(records),
            "files": {path.name: _sha256(path) for path in sorted(files)},
        }
        write(MANIFEST, json.dumps(packs, indent=1, sort_keys=True).encode() + b"\n")
    return files


def file_stem(close: Close) -> str:
    basis = "" if close.basis == "settled" else f"-{close.basis}"
    return f"close-{re.sub(r'[^0-9A-Za-z-]+', '_', close.period)}{basis}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---------------------------------------------------------------------------------- the page


def render_pack(pack: Pack) -> str:
    """The pack as one page: nothing is fetched, nothing runs."""
    page = TEMPLATES.get_template("close.html.j2").render(
        pack=pack,
        close=pack.close,
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        tables=pack_tables(pack),
    )
    return re.sub(r"\n{2,}", "\n", page)


def pack_tables(pack: Pack) -> dict[str, Table]:
    """Every table of the page, by the name of its file."""
    time = partial(time_cell, tz=pack.close.tz)
    frames = pack.frames
    moved = frames["roll-forward"]
    shown = [name for name in _SIDES.values()
             if name in ("opening", "closing") or (moved[name] != 0).any()]  # fmt: skip
    asset, profile = ("Asset", text, "asset"), ("Profile", profile_name, "profile_id")
    every = 10**9

    def amounts(**labels: str) -> list[Any]:
        return [(f"#{label}", money, name) for name, label in labels.items()]

    return {
        "roll-forward": table(
            "Roll-forward by asset and profile", frames["roll-forward"],
            [asset, profile, *((f"#{name.capitalize()}", money, name) for name in shown)],
            every,
        ),
        "lines": table(
            "Receipts and disbursements by type", frames["lines"],
            [asset, profile, ("Line", words, "line"), ("Type", line_type, "type"),
             ("#Amount", money, "amount")], every,
        ),
        "reconciliation": table(
            "From the closing to what the service reports", frames["reconciliation"],
            [asset, profile, *amounts(
                closing="Closing", moved_after="Settled after", held="Held by pending",
                learned_since="Learned since", rebuilt="Rebuilt", reported="Reported",
                difference="Difference",
            )], every,
        ),
        "proof-of-cash": table(
            "Proof of cash", frames["proof-of-cash"],
            [asset, profile, ("Side", words, "side"), *amounts(
                opening="Opening", receipts="Receipts", disbursements="Disbursements",
                closing="Closing",
            )], every,
        ),
        "ageing": table(
            "Open items by age", frames["ageing"],
            [asset, ("Age", text, "age"), ("#Items", number, "count"), ("#Total", money, "total")],
            every,
        ),
        "open-items": table(
            "Open items, oldest first", frames["open-items"],
            [("Created", time, "created_at"), ("Age", text, "age"), ("Type", type_name, "type"),
             asset, profile, ("#Total", money, "total"), ("Cause", words, "cause"),
             ("Owner", text, "owner"), ("Comment", text, "comment"),
             ("Expected", time, "expected"), ("Cleared", time, "cleared_at"),
             ("Item", identifier, "id")], every,
        ),
        "restatements": table(
            "What was restated, transfer by transfer", frames["restatements"],
            [asset, profile, ("Line", words, "line"), ("Type", line_type, "type"),
             *amounts(then="Closed", now="Now", difference="Difference"),
             ("Why", cause_name, "cause"), ("Transfer", identifier, "transfer_id")], every,
        ),
        "decisions": table(
            "Decisions", frames["decisions"],
            [("At", time, "at"), ("By", text, "by"), ("Item", identifier, "item_id"),
             ("Decision", text, "decision"), ("Comment", text, "comment")], every,
        ),
        "control-totals": table(
            "Control totals: completed transfers created until the period's end",
            frames["control-totals"],
            [asset, ("#Transfers", number, "count"),
             *amounts(amount="Amount", fee="Fee", total="Total")], every,
        ),
        "data": table(
            "Tables read", frames["data"],
            [("Table", words, "table"), ("#Publication", number, "publication"),
             ("#Rows", number, "rows")], every,
        ),
    }  # fmt: skip


def profile_name(value: object) -> Cell:
    return text(value) if value == ALL else short(value)


def line_type(value: object) -> Cell:
    return Cell(humanise(str(value)) if value else "–")


def cause_name(value: object) -> Cell:
    return Cell(CAUSES[str(value)])


# ------------------------------------------------------------------------------ once more


def reperform(store: TableStore, folder: str | os.PathLike[str]) -> list[str]:
    """What of the close packs in ``folder`` is not what ``store`` makes of their pins, a line for
    each difference, files first; none where every figure and byte is the same.

    Raises ``InvalidRequest`` where there is no pack, ``StoreError`` where a close is not in the
    store.
    """
    place = local_path(folder, "folder")
    if not (place / MANIFEST).exists():
        raise InvalidRequest(f"{place} holds no close pack: there is no {MANIFEST}")
    try:
        packs = _read_manifest(place)
    except InvalidRequest as damaged:
        return [str(damaged)]
    if not packs:
        return [f"{MANIFEST} is not what was written"]
    records = store.records()
    known = {one.hash: one for one in closes_of(records)}
    for pack in packs.values():
        if pack["close"] not in known or pack["records"] > len(records):
            raise StoreError(
                f"{store.path} has no close {pack['close'][:16]}, which {place} is the pack of"
            )
    files = {name: digest for pack in packs.values() for name, digest in pack["files"].items()}
    found = [
        f"{path.name} is of no pack that {MANIFEST} names"
        for path in sorted(place.glob("close-*"))
        if path.suffix in _SUFFIXES and path.name not in files
    ]
    for name, digest in sorted(files.items()):
        path = place / name
        if not path.exists():
            found.append(f"{name} is missing")
        elif _sha256(path) != digest:
            found.append(f"{name} is not what {MANIFEST} names")
    try:
        with TemporaryDirectory() as scratch:
            for pack in packs.values():
                close = known[pack["close"]]
                content, at = close.content, close.pin
                # The lines and open items of the record that the pin does not give.
                again = figures_of(store, judge(store, pin=at), close.period, close.tz,
                                   close.basis, pin=at)  # fmt: skip
                for name in ("opening", "lines", "open_items"):
                    recorded, made = (
                        [canonical(row).decode() for row in side[name]] for side in (content, again)
                    )
                    pairs = ((recorded, made), (made, recorded))
                    gone, new = (
                        [row for row in one if row not in {*other}] for one, other in pairs
                    )
                    found += [f"{name}: the record has {row}, which the pin does not give"
                              for row in gone[:1]]  # fmt: skip
                    found += [f"{name}: the pin gives {row}, which the record does not have"
                              for row in new[:1]]  # fmt: skip
                _write(store, close, records[: pack["records"]], Path(scratch))
            for path in sorted(Path(scratch).iterdir()):
                other = place / path.name
                if other.exists() and path.read_bytes() != other.read_bytes():
                    found.append(_first_difference(path, other))
    except StoreError as error:
        found.append(str(error))
    return found


def _first_difference(made: Path, found: Path) -> str:
    left, right = made.read_bytes(), found.read_bytes()
    pairs = zip(left, right, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    if made.suffix == ".xlsx":
        return f"{found.name} differs from byte {at} on"
    line = left[:at].count(b"\n")
    rows = [side.split(b"\n")[line].decode(errors="replace")[:200] for side in (left, right)]
    return f"{found.name} differs at byte {at}, line {line + 1}: {rows[1]!r}, not {rows[0]!r}"
