"""The smaller tables of a report: what waits, where money went, when, and events of note."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import pandas as pd
from duckdb import ColumnExpression, ConstantExpression

from fundlab.analysis import checks
from fundlab.charts import humanise, shorten_id
from fundlab.decimals import DecimalDtype
from fundlab.errors import AnalysisError
from fundlab.reporting.inputs import (
    ASSET,
    COMPLETE,
    INTERNAL,
    Relation,
    Span,
    frame_of,
    relation,
    whole,
)
from fundlab.secret import mask_number
from fundlab.values import EXACT, exact_sum

TOP_TARGETS: Final = 7
OTHER_PROFILES: Final = "Other profiles"
_NOTABLE: Final = r"(failed|rejected|required|denied|disabled|suspend|expired|deprecated|returned)"
_QUARTER: Final = 900_000_000_000
_LINKS: Final = {"stage": "int64", "source": "str", "target": "str", "asset": "str"}
_NOTABLE_EVENTS: Final = {
    "created_at": "datetime64[ns, UTC]", "type": "str", "object": "str", "id": "str",
}  # fmt: skip


class Recipients:
    """What an account or address is called, with nothing in it that one could pay to."""

    def __init__(self, accounts: pd.DataFrame | None, addresses: pd.DataFrame | None) -> None:
        self._accounts: dict[str, str] = {}
        self._addresses: dict[tuple[str, str], str] = {}
        if accounts is not None:
            rows = zip(accounts["id"], accounts["fiat_network_instructions"], strict=True)
            self._accounts = {str(id_): _account_name(str(id_), text) for id_, text in rows}
        if addresses is not None:
            known = addresses.reindex(columns=["crypto_network", "address", "nickname"])
            for network, address, name in known.itertuples(index=False):
                self._addresses[_word(network), str(address)] = _address_name(address, name)

    def name(self, fiat_account_id: Any, network: Any, address: Any) -> str:
        if not pd.isna(fiat_account_id):
            account = str(fiat_account_id)
            return self._accounts.get(account, shorten_id(account))
        if not pd.isna(address):
            return self._addresses.get((_word(network), str(address)), shorten_id(str(address)))
        return "–"


def states(rows: Relation) -> dict[str, int]:
    """How many transfers are in which state."""
    counts = rows.aggregate("status, count(*)").fetchall()
    return {str(status): int(count) for status, count in counts}


def open_items(rows: Relation, as_of: pd.Timestamp) -> pd.DataFrame:
    columns = "id, ref_id, created_at, type, asset, balance_asset, amount, fee, total, profile_id"
    pending = rows.filter("status = 'PENDING'").project(columns).order("created_at, id")
    found = frame_of(pending)
    return found.assign(age=as_of - found["created_at"])


def anomalies(rows: Relation, span: Span, accounts: pd.DataFrame | None) -> pd.DataFrame:
    """``checks.anomalies`` of the transfers in ``span``, seen against all before."""
    known = None if accounts is None else whole(accounts, "fiat_accounts")
    found = checks.anomalies(rows, fiat_accounts=known)
    return frame_of(span.of(found).order("created_at DESC, rule, transfer_id"))


def withdrawals(rows: Relation, recipients: Recipients, made: Sequence[str] | None) -> pd.DataFrame:
    """Debits but internal ones, or those ``made``, the latest first, with a masked
    ``recipient``."""
    if made is not None:
        ids = ColumnExpression("id").isin(*(ConstantExpression(name) for name in [*made, ""]))
        chosen = rows.filter(ids)
    else:
        chosen = rows.filter(f"direction = 'DEBIT' AND NOT {INTERNAL}")
    columns = ["created_at", "type", "asset", "amount", "fee", "total", "status", "recipient",
               "ref_id", "profile_id", "id"]  # fmt: skip
    places = ["fiat_account_id", "crypto_network", "destination_address"]
    needed = [name for name in (*columns, *places) if name != "recipient"]
    found = frame_of(chosen.order("created_at DESC, id").project(", ".join(needed)))
    missing = sorted(set(made or ()) - set(found["id"]))
    if missing:
        raise AnalysisError(f"withdrawals names transfers that are not there: {missing}")
    found["recipient"] = _named(found, recipients)
    return found[columns]


def recipient_sums(rows: Relation, recipients: Recipients) -> pd.DataFrame:
    """``recipient``, ``type``, ``asset``, ``count``, ``amount``, ``fee``, ``last``."""
    paid = rows.filter(f"{COMPLETE} AND direction = 'DEBIT' AND NOT {INTERNAL}")
    where = "fiat_account_id, crypto_network, destination_address, type, asset"
    sums = paid.aggregate(
        f"{where}, count(*) AS count, sum(amount) AS amount, sum(fee) AS fee, "
        "max(created_at) AS last",
        where,
    )
    found = frame_of(sums.order(f"asset, amount DESC, {where}"))
    found.insert(0, "recipient", _named(found, recipients))
    return found.drop(columns=["fiat_account_id", "crypto_network", "destination_address"])


def movements(rows: Relation, balances: pd.DataFrame) -> pd.DataFrame:
    """``asset``, ``step``, ``kind``, ``amount``: opening, what each type brought or took, fees,
    and the closing; what is left unexplained is a step of its own."""
    moved = rows.filter(COMPLETE).project(f"type, direction, {ASSET} AS asset, amount, fee")
    keys = "type, direction, asset"
    sums = frame_of(
        moved.aggregate(f"{keys}, sum(amount) AS amount, sum(fee) AS fee", keys).order(keys)
    )
    found: list[dict[str, Any]] = []
    for asset, sides in balances.groupby("asset", sort=True)[["opening", "closing"]]:
        steps = list(_steps(sums[sums["asset"] == asset]))
        opening: Any = sides["opening"].sum()
        closing: Any = sides["closing"].sum()
        known = exact_sum([opening, *(amount for _, amount in steps)])
        rest = EXACT.subtract(closing, known)
        if rest:
            steps.append(("Unexplained", rest))
        found.append(_step(asset, "Opening", "balance", opening))
        found += [_step(asset, name, "change", amount) for name, amount in steps]
        found.append(_step(asset, "Closing", "balance", closing))
    names = ["asset", "step", "kind", "amount"]
    table = pd.DataFrame(found, columns=names).astype(dict.fromkeys(names[:3], "str"))
    return table.assign(amount=pd.Series([row["amount"] for row in found], dtype=DecimalDtype()))


def links(rows: Relation, recipients: Recipients) -> pd.DataFrame:
    """``stage``, ``source``, ``target``, ``asset``, ``amount``: completed transfers between the
    outside, the profiles and the recipients, the smaller recipients together."""
    names = (
        "profile_id, direction, type, internal, asset, fiat_account_id, crypto_network, "
        "destination_address"
    )
    sums = rows.filter(COMPLETE).project(
        f"profile_id, direction, type, {INTERNAL} AS internal, {ASSET} AS asset, "
        "fiat_account_id, crypto_network, "
        "CASE WHEN direction = 'DEBIT' THEN destination_address END AS destination_address, total"
    )
    found = frame_of(sums.aggregate(f"{names}, sum(total) AS amount", names).order(names))
    kind = found["type"].map(lambda name: humanise(str(name)))
    outside = kind.where(~found["internal"].astype(bool), OTHER_PROFILES)
    debit = found["direction"] == "DEBIT"
    named = _named(found, recipients)
    target = outside.where(~debit | (named == "–") | found["internal"].astype(bool), named)
    profile = found["profile_id"].map(lambda name: shorten_id(str(name)))
    table = pd.DataFrame(
        {
            "stage": debit.astype("int64") + 1,
            "source": profile.where(debit, outside),
            "target": target.where(debit, profile),
            "asset": found["asset"],
            "amount": found["amount"],
        }
    )
    return _with_few_ends(table.astype(_LINKS))


def hours(rows: Relation) -> pd.DataFrame:
    """``created_at`` (the start of a quarter of an hour), ``count``."""
    quarter = f"epoch_ns(created_at) // {_QUARTER}"
    counts = rows.aggregate(f"{quarter} AS quarter, count(*) AS count", quarter).order("quarter")
    found = frame_of(counts)
    starts = pd.to_datetime(found["quarter"].astype("int64") * _QUARTER, utc=True)
    return pd.DataFrame({"created_at": starts, "count": found["count"].astype("int64")})


def event_counts(events: object, span: Span) -> pd.DataFrame:
    if events is None:
        return pd.DataFrame({"type": pd.Series(dtype="str"), "count": pd.Series(dtype="int64")})
    rows = span.of(relation(events, "events"))
    counts = rows.aggregate("type, count(*) AS count", "type").order("count DESC, type")
    return frame_of(counts).astype({"type": "str", "count": "int64"})


def notable_events(events: object, span: Span) -> pd.DataFrame:
    """``created_at``, ``type``, ``object``, ``id``: refusals, failures and what asks for papers,
    the latest first."""
    if events is None:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _NOTABLE_EVENTS.items()})
    rows = span.of(relation(events, "events")).filter(f"regexp_matches(type, '{_NOTABLE}')")
    newest = rows.project(", ".join(_NOTABLE_EVENTS)).order("created_at DESC, id")
    return frame_of(newest).astype(_NOTABLE_EVENTS)


# ----------------------------------------------------------------------------------- helpers


def _named(rows: pd.DataFrame, recipients: Recipients) -> pd.Series[str]:
    places = zip(
        rows["fiat_account_id"], rows["crypto_network"], rows["destination_address"], strict=True
    )
    names = [recipients.name(*place) for place in places]
    return pd.Series(names, rows.index, dtype="str")


def _word(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _account_name(identifier: str, instructions: Any) -> str:
    try:
        found = json.loads(instructions)
    except (TypeError, ValueError):
        return shorten_id(identifier)
    wire = found.get("wire") if isinstance(found, dict) else None
    if not isinstance(wire, dict):
        return shorten_id(identifier)
    number = mask_number(str(wire.get("account_number") or ""))
    routing = wire.get("routing_details")
    bank = routing.get("bank_name") if isinstance(routing, dict) else None
    return f"{number} {bank}" if bank else number


def _address_name(address: Any, nickname: Any) -> str:
    short = shorten_id(str(address))
    return short if pd.isna(nickname) or not nickname else f"{short} ({nickname})"


def _steps(sums: pd.DataFrame) -> Iterator[tuple[str, Decimal]]:
    """Credits first, then debits, each by size, and all fees at last."""
    for direction in ("CREDIT", "DEBIT"):
        side = sums[sums["direction"] == direction].sort_values("amount", ascending=False)
        for kind, amount in zip(side["type"], side["amount"], strict=True):
            yield humanise(str(kind)), amount if direction == "CREDIT" else amount.copy_negate()
    charged: Any = sums["fee"].sum()
    if charged:
        yield "Fees", charged.copy_negate()


def _step(asset: object, name: str, kind: str, amount: Any) -> dict[str, Any]:
    return {"asset": str(asset), "step": name, "kind": kind, "amount": amount}


def _with_few_ends(table: pd.DataFrame) -> pd.DataFrame:
    """The largest sources and targets of each asset by name, the rest as ``n others``."""
    for stage, end in ((1, "source"), (2, "target")):
        mine = table["stage"] == stage
        sums = table[mine].groupby(["asset", end])["amount"].sum().reset_index()
        sums = sums.sort_values(["asset", "amount"], ascending=[True, False], kind="stable")
        sums["place"] = sums.groupby("asset").cumcount()
        sizes = sums.groupby("asset")[end].transform("size")
        small = sums[(sums["place"] >= TOP_TARGETS - 1) & (sizes > TOP_TARGETS)]
        others = {
            (asset, name): f"{count:,} others"
            for asset, count in small.groupby("asset").size().items()
            for name in small.loc[small["asset"] == asset, end]
        }
        named = zip(table["asset"], table[end], mine, strict=True)
        shown = [others.get((asset, name), name) if here else name for asset, name, here in named]
        table[end] = pd.Series(shown, table.index, dtype="str")
    keys = ["stage", "asset", "source", "target"]
    return table.groupby(keys)["amount"].sum().reset_index()
