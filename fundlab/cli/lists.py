"""``fundlab profiles``, ``accounts``, ``balances``, ``addresses``, ``transfers``: what is there, so
that ids come from the shell."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from fundlab.base.terminal import answer
from fundlab.base.values import Instant
from fundlab.cli.options import (
    PRICE_AGE,
    Json,
    PriceAge,
    Since,
    StorePath,
    Until,
    checked_span,
    existing_store,
    id_of_profile,
)

if TYPE_CHECKING:
    import pyarrow as pa

LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Rows at most.")]
USUAL_LIMIT: Final = 100
_AMOUNTS: Final = ("amount", "fee", "available", "trading", "price", "value", "price_age")
_PROFILE: Final = 14
"""Characters of a profile's name in a line of transfers."""

commands = typer.Typer()


def _checked_type(text: str | None) -> str | None:
    from fundlab.base.errors import with_likely
    from fundlab.models import TransferType

    kinds = [kind.value for kind in TransferType]
    if text is not None and text.upper() not in kinds:
        likely = with_likely(text, kinds)
        raise typer.BadParameter(f"{likely} is not a type; there are {', '.join(sorted(kinds))}")
    return text and text.upper()


OfOption = Annotated[
    str | None,
    typer.Option(
        "--of", metavar="PROFILE", callback=id_of_profile,
        help="Of this funding profile: its id or name.",
    ),
]  # fmt: skip


@commands.command()
def profiles(
    store: StorePath = None, limit: LimitOption = USUAL_LIMIT, as_json: Json = False
) -> None:
    """List the profiles, their names and assets.

    From the service, or from --store. A name is a line "ID" = "Treasury" below [names] in
    config.toml.
    """
    found: dict[str, set[str]] = {}
    for one in _records(_table("balances", store).select(["profile_id", "asset"])):
        found.setdefault(one["profile_id"], set()).add(one["asset"])
    rows = [{"profile_id": one, "assets": " ".join(sorted(found[one]))} for one in sorted(found)]
    _show("profiles", rows, limit, as_json)


@commands.command()
def accounts(
    store: StorePath = None, limit: LimitOption = USUAL_LIMIT, as_json: Json = False
) -> None:
    """List the fiat accounts, numbers masked.

    From the service, or from --store.
    """
    from fundlab.tables.expand import bank_summary

    rows = []
    for one in _records(_table("fiat_accounts", store)):
        shown = bank_summary(one["fiat_account_owner"], one["fiat_network_instructions"])
        rows.append(
            {"id": one["id"], "status": one["status"], "network": shown.network,
             "owner": shown.owner, "bank": shown.bank, "number": shown.number,
             "identity_id": one["identity_id"], "created_at": one["created_at"]}
        )  # fmt: skip
    _show("accounts", rows, limit, as_json)


@commands.command()
def balances(
    of: OfOption = None,
    in_: Annotated[
        str | None,
        typer.Option("--in", metavar="CURRENCY", help="With their value, by the service's prices."),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|STORE",
            help="More prices: CSV or Parquet with asset, at and price, or a store.",
        ),
    ] = None,
    max_age: PriceAge = PRICE_AGE,
    store: StorePath = None,
    limit: LimitOption = USUAL_LIMIT,
    as_json: Json = False,
) -> None:
    """List the balances.

    As the service has them, or as --store last saw them. A value is not part of the proof; where
    no price is young enough, there is none, and the last line says of what.
    """
    if prices is not None and in_ is None:
        raise typer.BadParameter("give the currency with --in", param_hint="--prices")
    import pyarrow as pa

    if in_ is None or store is not None:
        said: Any = store and existing_store(store)
        every = _table("balances", store)  # oldest first
    else:  # which balances there are is known by all transfers: they have the prices, too
        from fundlab.client.client import connect
        from fundlab.sync import loaders
        from fundlab.tables import to_arrow

        with connect() as client:
            said = loaders.load_transfers(client)
            every = to_arrow(loaders.load_balances(client, transfers=said), "balances")
    pairs = zip(*(every.column(name).to_pylist() for name in ("profile_id", "asset")), strict=True)
    last = {pair: place for place, pair in enumerate(pairs) if of in (None, pair[0])}
    names = ["profile_id", "asset", "available", "trading", "observed_at"]
    places = pa.array([last[pair] for pair in sorted(last)], pa.int64())
    found, totals = every.select(names).take(places), dict[str, Any]()
    if in_ is not None:
        sources = [said, *([] if prices is None else [prices])]
        found, totals = _valued(found, in_.upper(), sources, max_age)
    _show("balances", _records(found), limit, as_json, totals)


def _valued(
    rows: pa.Table, currency: str, sources: list[Any], max_age: str
) -> tuple[pa.Table, dict[str, Any]]:
    """The balances with ``value``, and ``price`` with its source and age; and their sum."""
    import pyarrow as pa

    from fundlab.analysis import value
    from fundlab.tables import to_frame

    balances = to_frame(rows)
    whole = balances.assign(balance=balances["available"] + balances["trading"])
    valued, unpriced = value.valued(whole, currency, sources, max_age, ["balance"])
    valued = valued.rename(columns={"balance_value": "value"}).drop(columns="balance")
    priced = valued["value"].dropna()
    totals = {"currency": currency, "value": priced.sum() if len(priced) else None,
              "priced": len(priced), "balances": len(valued), "proved": False,
              "unpriced": unpriced}  # fmt: skip
    return pa.Table.from_pandas(valued, preserve_index=False), totals


@commands.command()
def addresses(
    store: StorePath = None, limit: LimitOption = USUAL_LIMIT, as_json: Json = False
) -> None:
    """List the crypto addresses that can be paid.

    From the service, or from --store.
    """
    names = ["id", "status", "crypto_network", "nickname", "address", "created_at"]
    rows = [{name: one[name] for name in names} for one in _records(_table("addresses", store))]
    _show("addresses", rows, limit, as_json)


@commands.command()
def transfers(
    of: OfOption = None,
    status: Annotated[
        Literal["PENDING", "COMPLETED", "FAILED"] | None,
        typer.Option(case_sensitive=False, help="In this state."),
    ] = None,
    type: Annotated[
        str | None, typer.Option(callback=_checked_type, help="Such as WIRE_DEPOSIT.")
    ] = None,
    since: Since = None,
    until: Until = None,
    store: StorePath = None,
    limit: LimitOption = USUAL_LIMIT,
    as_json: Json = False,
) -> None:
    """List the newest transfers.

    From the service, or from --store. Times are UTC; --json has complete ids, fees and ref_ids.
    """
    from fundlab.client.client import connect

    begins, ends = checked_span(since, until)
    names = ["id", "created_at", "profile_id", "type", "status", "amount", "fee", "asset", "ref_id"]
    if store is None:
        with connect() as client:
            rows = client.list_transfers(
                profile_ids=None if of is None else [of],
                statuses=None if status is None else [status], type=type,
                created_at_gte=begins, created_at_lt=ends, max_rows=limit + 1,
            )  # fmt: skip
            found = [one.model_dump() for one in rows]
    else:
        import pyarrow.compute as pc

        kept = _table("transfers", store, begins, ends)  # oldest first
        for name, wanted in (("profile_id", of), ("status", status), ("type", type)):
            kept = kept if wanted is None else kept.filter(pc.equal(kept.column(name), wanted))
        found = _records(kept.slice(max(0, len(kept) - limit - 1)))[::-1]
    _show("transfers", [{name: one[name] for name in names} for one in found], limit, as_json)


def _table(
    name: str, store: str | None, since: str | None = None, until: str | None = None
) -> pa.Table:
    """In the order of ``Store.read``."""
    from fundlab.tables import find_table, to_arrow

    if store is not None:
        rows = existing_store(store).read_arrow(name, since=since, until=until)
        return find_table(name).in_order(rows)
    from fundlab.client.client import connect
    from fundlab.sync import loaders

    with connect() as client:
        return to_arrow(getattr(loaders, f"load_{name}")(client), name)


def _records(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows, with an ``Instant`` for each time."""
    import pyarrow as pa

    columns = []
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            moments = column.cast(pa.int64()).to_pylist()
            columns.append([None if ns is None else Instant.from_ns(ns) for ns in moments])
        else:
            columns.append(column.to_pylist())
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _show(
    what: str,
    rows: list[dict[str, Any]],
    limit: int,
    as_json: bool,
    totals: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """JSON has all of it. Text is to be looked at: names beside ids, times to the second, values to
    the cent, no column that is empty; of transfers one line of 120 columns. ``totals`` are of
    values."""
    from decimal import Decimal

    from fundlab.base.errors import number_of, printable
    from fundlab.base.values import Amount, length_text, money_text, plain_text
    from fundlab.display import Cell, Table, price_text, value_text
    from fundlab.settings.labels import labels, names_given, shorten_id

    def text(value: Any, money: Callable[[Decimal, int], str]) -> str:
        if value is None:
            return ""
        if isinstance(value, Amount | Decimal):
            return money(Decimal(getattr(value, "text", value)), 2)
        if isinstance(value, Instant) and value.ns % 1000:  # which isoformat leaves out
            return f"{value.isoformat(timespec='microseconds')[:-6]}{value.ns % 1000:03}+00:00"
        return str(value.isoformat()) if hasattr(value, "isoformat") else printable(str(value))

    names, shown = names_given(), rows[:limit]
    named_keys = {key for row in shown for key in ("id", "profile_id")
                  if str(row.get(key)).lower() in names}  # fmt: skip

    def named(row: dict[str, Any], money: Callable[[Decimal, int], str]) -> dict[str, str]:
        found = {}
        for key, value in row.items():
            found[key] = text(value, money)
            if key in named_keys:
                called = "name" if key == "id" or what == "profiles" else "profile"
                found[called] = names.get(str(value).lower(), "")
        return found

    lines: list[dict[str, str]] = []
    profiles = labels((str(row.get("profile_id")) for row in shown), names)
    for row in shown:
        line = named(row, money_text)
        for key, value in line.items():
            if value and key.endswith("_at"):
                line[key] = f"{value[:10]} {value[11:19]}Z"
            if value and key == "price_age":
                line[key] = length_text(row[key].value)
            if value and key in ("price", "value"):
                line[key] = (price_text if key == "price" else value_text)(row[key])
        if what == "transfers":
            profile = textwrap.shorten(profiles[line["profile_id"]], _PROFILE, placeholder="…")
            line = {
                "created": line["created_at"][:16], "id": shorten_id(line["id"]),
                "profile": profile, "type": line["type"],
                "status": line["status"], "amount": line["amount"], "asset": line["asset"],
            }  # fmt: skip
        lines.append(line)
    keys = dict.fromkeys(key for line in lines for key in line)
    columns = [key for key in keys if any(line.get(key) for line in lines)]
    table = Table(
        tuple((key, "number" if key in _AMOUNTS else "text") for key in columns),
        tuple(tuple(Cell(line.get(key, "")) for key in columns) for line in lines),
    )
    said = table.lines() if rows else [f"no {what}"]
    more = len(rows) > limit
    if more:
        said.append(f"… and more; give a --limit of more than {number_of(limit, 'row')}")
    body = {what: [named(row, plain_text) for row in shown], "more": more}
    if totals:
        worth = f": {value_text(totals['value'])}" if totals["priced"] else " in"
        said.append(
            f"{totals['priced']:,} of {number_of(totals['balances'], 'balance')} priced{worth} "
            f"{totals['currency']}; not part of the proof"
        )
        said += [totals["unpriced"]] * bool(totals["unpriced"])
        body["totals"] = {**totals, "value": text(totals["value"], plain_text)}
    answer(body, as_json, "\n".join(said), well=False)
