"""The tables and key figures of a report, a function for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import narwhals as nw
import pandas as pd
from duckdb import ColumnExpression, ConstantExpression

from fundlab.analysis import balances, checks, fees, flows, flux, reconcile, value
from fundlab.analysis.closing import BRIDGE, Restatement
from fundlab.analysis.counting import opening_balances, refuse, signed_changes
from fundlab.analysis.engines import TIME, Workbench, engine_errors, to_pandas
from fundlab.analysis.explain import EXPLAINED
from fundlab.base.errors import AnalysisError, number_of
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum, length_text, money_text
from fundlab.charts import humanise
from fundlab.decimals import DecimalDtype
from fundlab.display import Tone
from fundlab.evidence.verdict import KEYS, SOUND, Judgement
from fundlab.models import COMPLETED
from fundlab.reports.facts import KeyFigure
from fundlab.reports.inputs import (
    ASSET,
    COMPLETE,
    INTERNAL,
    PLACED,
    Relation,
    Span,
    arrow_table,
    count,
    failed_at,
    frame_of,
    moment,
    relation,
)
from fundlab.settings.labels import shorten_id
from fundlab.tables import TABLES, to_frame
from fundlab.tables.expand import bank_summary
from fundlab.tables.transfers import (
    LINES,
    MOMENTS,
    VIOLATION,
    ZERO,
    Basis,
    counts,
    held_or_settled,
    inflow,
    outflow,
)

OTHER_PROFILES: Final = "Other profiles"
_NOTABLE: Final = r"(failed|rejected|required|denied|disabled|suspend|expired|deprecated|returned)"
_QUARTER: Final = 900_000_000_000
_SIDES: Final = ("opening", "inflow", "outflow", "closing", "held", "available")
RESTATED: Final = ("period", "basis", *BRIDGE)
_LINKS: Final = {"stage": "int64", "source": "str", "target": "str", "asset": "str"}
_NOTABLE_EVENTS: Final = {
    "created_at": "datetime64[ns, UTC]", "type": "str", "object": "str", "id": "str",
}  # fmt: skip


# -------------------------------------------------------------------------------- balances


def balance_table(
    rows: Relation, span: Span, opening: pd.DataFrame | None, basis: Basis
) -> pd.DataFrame:
    """Opening, flows, closing, held and available of every profile and asset, as ``balances.at``
    and ``flows.net`` give them, in one pass over ``rows``: those created until ``span`` ends, of
    which some may have settled only later."""
    by, done = MOMENTS[basis], counts("ledger")
    if basis == "settled":  # what failed later was still pending, and held
        later = f"status = 'FAILED' AND epoch_ns({failed_at(rows)}) >= {span.end}"
        rows = rows.project(
            f"* REPLACE (CASE WHEN {later} THEN 'PENDING' ELSE status END AS status)"
        )
    also: dict[str, Any] = {by: TIME}
    with Workbench(rows, by) as bench:
        counting, _ = signed_changes(bench, rows, "available", "created_at", **also)
        refuse(bench, counting, (by,), among=done)
        before = nw.lit(False) if span.first is None else nw.col(by) < span.first
        until = done & (nw.col(by) < span.end)
        held = held_or_settled() if basis == "settled" else nw.col("created_at")
        sums = {
            "opening": (nw.col("change"), until & before),
            "inflow": (inflow(), until & ~before),
            "outflow": (outflow(), until & ~before),
            "closing": (nw.col("change"), until),
            "available": (nw.col("change"), held < span.end),
        }
        there = counting.filter(until | (held < span.end))
        parts = there.select(
            *KEYS, **{name: nw.when(where).then(what).otherwise(ZERO)
                      for name, (what, where) in sums.items()}
        )  # fmt: skip
        summed = parts.group_by(*KEYS).agg(nw.col(*sums).sum())
        opened = opening_balances(bench, opening)
        both = summed.join(opened, on=KEYS, how="full", suffix="_opened")
        none = nw.coalesce("opened", ZERO)
        table = both.select(
            *(nw.coalesce(key, f"{key}_opened").alias(key) for key in KEYS),
            **{name: nw.coalesce(name, ZERO) + (ZERO if "flow" in name else none)
               for name in sums},
        )  # fmt: skip
        table = table.with_columns(held=nw.col("closing") - nw.col("available"))
        return frame_of(table.select(*KEYS, *_SIDES).sort("asset", "profile_id").to_native())


def course(
    drawn: Relation, span: Span, opening: pd.DataFrame | None, tz: str, basis: Basis
) -> pd.DataFrame:
    """The balance at the close of each day, from the day before ``span`` on."""
    last = moment(span.end - 1).tz_convert(tz)
    found = frame_of(balances.daily(drawn, tz, last.date(), opening, basis=basis))
    if span.first is not None:
        first_day = moment(span.first).tz_convert(tz).tz_localize(None).normalize()
        found = found[found["date"] >= first_day - pd.Timedelta(days=1)].reset_index(drop=True)
    if opening is None:
        return found
    # Opening balances that never moved stand on each of these days.
    moved = pd.MultiIndex.from_frame(found[KEYS])
    idle = opening[(opening["balance"] != 0) & ~pd.MultiIndex.from_frame(opening[KEYS]).isin(moved)]
    end = last.tz_localize(None).normalize()
    start = found["date"].min() if len(found) else end
    days = pd.DataFrame({"date": pd.date_range(start, end, freq="D", unit="ns")})
    flat = idle[[*KEYS, "balance"]].merge(days, how="cross").astype(found.dtypes.to_dict())
    both = pd.concat([found, flat[found.columns]], ignore_index=True)
    return both.sort_values([*KEYS, "date"], kind="stable", ignore_index=True)


def tied(
    balances_: pd.DataFrame, roll_forward: pd.DataFrame, restated: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables, beginning with the closing of the last close; what is known otherwise since
    (``profile_id``, ``asset``, ``amount``) stands beside it. A balance that closed and of which
    nothing counts any more is a row, too."""
    table = balances_.merge(restated, on=KEYS, how="outer").rename(columns={"amount": "restated"})
    for name in (*_SIDES, "restated"):
        table[name] = table[name].astype(DecimalDtype()).fillna(0)
    table["opening"] = table["opening"] - table["restated"]
    table = table.sort_values(["asset", "profile_id"], kind="stable", ignore_index=True)
    names = [*KEYS, _SIDES[0], "restated", *_SIDES[1:]]
    more = restated.assign(line="restatement", type="")
    less = more.assign(line="opening", amount=-more["amount"])
    none = more.assign(line="closing", amount=0)
    both = pd.concat([roll_forward, *(one[more.columns] for one in (more, less, none))])
    keys = [*KEYS, "line", "type"]
    sums = both.groupby(keys, as_index=False, observed=True)["amount"].sum()
    place = sums["line"].map({name: at for at, name in enumerate(LINES)})
    sums = sums.assign(place=place).sort_values([*KEYS, "place", "type"], kind="stable")
    return table[names], sums[[*keys, "amount"]].reset_index(drop=True)


def restatements(moved: Sequence[Restatement]) -> pd.DataFrame:
    """``period``, ``basis``, and the bridge of each closed period that has moved."""
    frames = [
        one.bridge.assign(period=one.close.period, basis=one.close.basis)[[*RESTATED]]
        for one in moved
    ]
    if frames:
        return pd.concat(frames, ignore_index=True)
    amounts = dict.fromkeys(("then", "now", "difference"), DecimalDtype())
    empty = {name: pd.Series(dtype=amounts.get(name, "str")) for name in RESTATED}
    return pd.DataFrame(empty)


def by_profile(balances: pd.DataFrame, profiles: Sequence[str]) -> pd.DataFrame:
    """``asset``, the closing of each of ``profiles``, of the ``others`` where there are more,
    ``closing``, ``opening`` and ``change`` of all: a line for each asset that has any."""
    shown = balances["profile_id"].astype(str)
    shown = shown.where(shown.isin(list(profiles)), "others")
    sums = balances.assign(profile_id=shown).groupby(["asset", "profile_id"], observed=True)
    by_both = sums["closing"].sum().unstack("profile_id").astype(DecimalDtype()).fillna(0)
    whole = balances.groupby("asset", observed=True)[["closing", "opening"]].sum()
    names = [
        *(one for one in profiles if one in by_both),
        *by_both.columns.intersection(["others"]),
    ]
    found = by_both[names].join(whole)
    found["change"] = found["closing"] - found["opening"]
    moved = (found["closing"] != 0) | (found["opening"] != 0)
    return found[moved].astype(DecimalDtype()).reset_index()


def movements(rows: Relation, sides: pd.DataFrame) -> pd.DataFrame:
    """``asset``, ``step``, ``kind``, ``amount``: opening, what each type brought or took, credits
    first, each by size, then all fees, and the closing; what is left unexplained is a step of its
    own."""
    moved = rows.filter(COMPLETE).project(f"type, direction, {ASSET} AS asset, amount, fee")
    keys = "type, direction, asset"
    sums = frame_of(
        moved.aggregate(f"{keys}, sum(amount) AS amount, sum(fee) AS fee", keys).order(keys)
    )
    found: list[tuple[str, str, str, Any]] = []
    named = [name for name in ("opening", "restated", "closing") if name in sides]
    for asset, mine in sides.groupby("asset", sort=True)[named]:
        by_type = sums[sums["asset"] == asset].sort_values("amount", ascending=False)
        steps: list[tuple[str, Decimal]] = []
        restated: Any = mine["restated"].sum() if "restated" in mine else None
        if restated:
            steps.append(("Restatement", restated))
        for direction in ("CREDIT", "DEBIT"):
            side = by_type[by_type["direction"] == direction]
            for kind, amount in zip(side["type"], side["amount"], strict=True):
                change = amount if direction == "CREDIT" else amount.copy_negate()
                steps.append((humanise(str(kind)), change))
        charged: Any = by_type["fee"].sum()
        if charged:
            steps.append(("Fees", charged.copy_negate()))
        opening: Any = mine["opening"].sum()
        closing: Any = mine["closing"].sum()
        rest = EXACT.subtract(closing, exact_sum([opening, *(amount for _, amount in steps)]))
        if rest:
            steps.append(("Unexplained", rest))
        found.append((str(asset), "Opening", "balance", opening))
        found += [(str(asset), name, "change", amount) for name, amount in steps]
        found.append((str(asset), "Closing", "balance", closing))
    names = ["asset", "step", "kind", "amount"]
    table = pd.DataFrame(found, columns=names).astype(dict.fromkeys(names[:3], "str"))
    return table.assign(amount=pd.Series([row[3] for row in found], dtype=DecimalDtype()))


def no_observations() -> pd.DataFrame:
    empty = to_frame(TABLES["balances"].schema.empty_table())
    amounts = dict.fromkeys(("reported", "rebuilt", "difference"), empty["available"])
    known = empty[["profile_id", "asset", "observed_at"]].assign(**amounts)
    return known.assign(complete=pd.Series(dtype="boolean"))


def causes(
    rows: Relation, reported: pd.DataFrame, opening: pd.DataFrame | None, broken: pd.DataFrame
) -> pd.DataFrame:
    """``reconcile.explain`` of the ``broken`` balances, among all rows: the other half of an
    internal transfer may be in a profile that matches."""
    if broken.empty:
        return to_pandas(EXPLAINED.empty_table())
    found = frame_of(reconcile.explain(rows, reported, opening=opening))
    ours = pd.MultiIndex.from_frame(found[KEYS]).isin(pd.MultiIndex.from_frame(broken[KEYS]))
    return found[ours].reset_index(drop=True)


# --------------------------------------------------------------------------- flows and fees


def transfers_by_type(inside: Relation) -> pd.DataFrame:
    """``type``, ``asset``, ``status``, ``count``, ``amount``: what the number of transfers is made
    of."""
    columns = f"type, {ASSET} AS asset, status, count(*) AS count, sum(amount) AS amount"
    found = inside.aggregate(columns, f"type, {ASSET}, status")
    return frame_of(found.order("asset, type, status")).astype({"count": "int64"})


def flows_of_all(outer: Relation, freq: str, tz: str, basis: Basis) -> pd.DataFrame:
    """All profiles together: what came from outside and went there."""
    sums = frame_of(flows.net(outer, freq, tz, basis=basis)).groupby(
        ["period", "asset"], as_index=False
    )
    return pd.DataFrame(sums[["inflow", "outflow", "net"]].sum())


def fees_against(inside: Relation, before: Relation) -> pd.DataFrame:
    """Effective fees, and how they moved against the period before."""
    by = ["type", "asset"]
    earlier = frame_of(fees.effective(before))[[*by, "bps"]]
    both = frame_of(fees.effective(inside)).merge(
        earlier.rename(columns={"bps": "bps_before"}), on=by, how="left"
    )
    both["bps_before"] = both["bps_before"].astype(DecimalDtype())
    return both.assign(drift=both["bps"] - both["bps_before"])


def exposure(sides: pd.DataFrame, until: Relation, span: Span, max_age: str) -> pd.DataFrame:
    """What each balance at the end of ``span`` is worth, by the prices of ``until``."""
    held = sides.loc[sides["closing"] != 0, [*KEYS, "closing"]].reset_index(drop=True)
    lately = Span(span.end - value.checked_age(max_age), span.end).of(until)
    return value.valued(held, prices=lately, max_age=max_age, at=moment(span.end - 1))[0]


def changes_against(before: Relation, outer: Relation, *, known: bool) -> pd.DataFrame:
    """``flux.explain`` of ``outer`` by type, none where no period before is ``known``."""
    earlier, now = before.filter(f"NOT {INTERNAL}"), outer
    if not known:
        earlier, now = earlier.limit(0), now.limit(0)
    return frame_of(flux.explain(earlier, now))


def flux_steps(changes: pd.DataFrame, moved: pd.DataFrame) -> pd.DataFrame:
    """As :func:`movements`: from the net flow before to that of the flows ``moved``, by driver."""
    rows: list[tuple[str, str, str, Any]] = []
    for asset, mine in changes.groupby("asset", sort=True):
        after = exact_sum(moved.loc[moved["asset"] == asset, "net"])
        before = EXACT.subtract(after, exact_sum(mine["difference"]))
        rows.append((str(asset), "Net before", "balance", before))
        for direction, name in (("CREDIT", "In"), ("DEBIT", "Out")):
            for driver in ("count", "mix", "average"):
                those = (mine["direction"] == direction) & (mine["driver"] == driver)
                rows.append((str(asset), f"{name}: {flux.DRIVERS[driver]}", "change",
                             exact_sum(mine.loc[those, "difference"])))  # fmt: skip
        rows.append((str(asset), "Net now", "balance", after))
    return pd.DataFrame(rows, columns=["asset", "step", "kind", "amount"])


def worth_by_month(until: Relation, span: Span, tz: str, max_age: str) -> pd.DataFrame:
    """``period``, ``asset``, ``count``, ``priced``, and what came, went and was charged is worth:
    the thirteen months until ``span`` ends, transfers between own profiles left out."""
    last = moment(span.end - 1).tz_convert(tz).tz_localize(None).to_period("M")
    first = (last - 12).start_time.tz_localize(tz).value
    rows = Span(first, span.end).of(until, PLACED).filter(f"{COMPLETE} AND NOT {INTERNAL}")
    sides = "CASE WHEN direction = {!r} THEN total ELSE 0 END AS {}"
    columns = (
        f"asset, balance_asset, {ASSET} AS moved, amount, fee, notional_value, created_at, "
        f"{PLACED}, {sides.format('CREDIT', 'inflow')}, {sides.format('DEBIT', 'outflow')}"
    )
    earlier = Span(first - value.checked_age(max_age), first).of(until)
    amounts = ["inflow", "outflow", "fee"]
    with engine_errors():
        worth = value.summed(
            rows.project(columns), earlier, max_age, amounts, "moved", "MS", tz, PLACED
        )
    found = to_pandas(worth).rename(columns={"moved": "asset"})
    return found.astype({"period": "datetime64[us, UTC]"})  # as DuckDB gives other periods


class Recipients:
    """What an account or address is called, with nothing in it that one could pay to."""

    def __init__(
        self,
        accounts: pd.DataFrame | None,
        addresses: pd.DataFrame | None,
        names: Mapping[str, str],
    ) -> None:
        self._named = names
        self._accounts: dict[str, str] = {}
        self._addresses: dict[tuple[str, str], str] = {}
        if accounts is not None:
            rows = zip(accounts["id"], accounts["fiat_network_instructions"], strict=True)
            self._accounts = {str(id_): masked_account(str(id_), text) for id_, text in rows}
        if addresses is not None:
            known = addresses.reindex(columns=["id", "crypto_network", "address", "nickname"])
            for id_, network, address, nickname in known.itertuples(index=False):
                name = shorten_id(str(address))
                if given := names.get(str(id_).lower(), names.get(str(address).lower())):
                    name = f"{given} · {name}"
                elif not pd.isna(nickname) and nickname:
                    name = f"{name} ({nickname})"
                place = "" if pd.isna(network) else str(network)
                self._addresses[place, str(address)] = name

    def names(self, rows: pd.DataFrame) -> pd.Series[str]:
        """Of each transfer where it went; ``–`` where its row does not say."""
        names = []
        for account, network, address in zip(
            rows["fiat_account_id"], rows["crypto_network"], rows["destination_address"],
            strict=True,
        ):  # fmt: skip
            if not pd.isna(account):
                names.append(self._account(str(account)))
            elif not pd.isna(address):
                place = "" if pd.isna(network) else str(network), str(address)
                names.append(self._addresses.get(place, shorten_id(str(address))))
            else:
                names.append("–")
        return pd.Series(names, rows.index, dtype="str")

    def by_id(self) -> dict[str, str]:
        """Of each account, by its id, and of each address."""
        accounts = {id_: self._account(id_) for id_ in self._accounts}
        return accounts | {address: name for (_, address), name in self._addresses.items()}

    def _account(self, identifier: str) -> str:
        masked = self._accounts.get(identifier, shorten_id(identifier))
        name = self._named.get(identifier.lower())
        return f"{name} · {masked}" if name else masked


def masked_account(identifier: str, instructions: Any) -> str:
    """``••••6789 First Bank``, or the short id where the instructions say nothing of an account."""
    shown = bank_summary(None, instructions)
    return f"{shown.number} {shown.bank}".strip() or shorten_id(identifier)


def withdrawals(
    rows: Relation,
    recipients: Recipients,
    made: Sequence[str] | None,
    differences: Mapping[str, str],
    approved_by: Mapping[str, str],
) -> pd.DataFrame:
    """Debits but internal ones, or those ``made``, the latest first, with a masked ``recipient``
    and, by their ``ref_id``, who approved them and the ``differences`` from the journal."""
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
    found["recipient"] = recipients.names(found)
    for name, said in (("approved_by", approved_by), ("difference", differences)):
        folded = {ref_id.casefold(): text for ref_id, text in said.items()}
        found[name] = found["ref_id"].str.casefold().map(folded).astype("string")
    return found[[*columns, "approved_by", "difference"]]


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
    found.insert(0, "recipient", recipients.names(found))
    return found.drop(columns=["fiat_account_id", "crypto_network", "destination_address"])


def links(rows: Relation, recipients: Recipients, called: Mapping[str, str]) -> pd.DataFrame:
    """``stage``, ``source``, ``target``, ``asset``, ``amount``: completed transfers between the
    outside, the profiles and the recipients."""
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
    internal = found["internal"].astype(bool)
    outside = kind.where(~internal, OTHER_PROFILES)
    debit = found["direction"] == "DEBIT"
    recipient = recipients.names(found)
    target = outside.where(~debit | (recipient == "–") | internal, recipient)
    profile = found["profile_id"].map(lambda name: called.get(str(name), str(name)))
    table = pd.DataFrame(
        {
            "stage": debit.astype("int64") + 1,
            "source": profile.where(debit, outside),
            "target": target.where(debit, profile),
            "asset": found["asset"],
            "amount": found["amount"],
        }
    ).astype(_LINKS)
    keys = ["stage", "asset", "source", "target"]
    return table.groupby(keys)["amount"].sum().reset_index()


# --------------------------------------------------------------------- what asks for a look


def key_figures(
    inside: Relation,
    judgement: Judgement,
    waiting: pd.DataFrame,
    aged_at: str,
    charged: pd.DataFrame,
    broken_rules: pd.DataFrame,
    later: int,
    earlier: Mapping[str, Any] | None,
) -> tuple[KeyFigure, ...]:
    """What stands beside the verdict; ``later`` counts the rows dated after the report.
    ``earlier`` are the figures of the period before (:func:`figures_before`)."""
    by_status = inside.aggregate("status, count(*)").fetchall()
    states = {str(status): int(count) for status, count in by_status}
    was: dict[str, Any] = dict.fromkeys(("matching", "transfers", "open", "fees", "violated"))
    was |= earlier or {}
    completed = sum(states.get(status, 0) for status in COMPLETED)
    comparison = judgement.table
    dollars: Any = charged.loc[charged["asset"] == "USD", "fee"].sum()
    proved = comparison.get("proof", pd.Series("now", comparison.index)).eq("now")
    matching = int((comparison["status"].isin(SOUND) & proved).sum())
    tone: Tone
    label, tone = "Balances proved", "good" if matching == judgement.balances > 0 else "plain"
    if judgement.since is not None:  # a balance observed once, to open it, has proved no movement
        seen = judgement.observations.groupby(KEYS).size()
        sound = comparison.loc[comparison["status"].isin(SOUND), KEYS]
        matching = int((seen.reindex(pd.MultiIndex.from_frame(sound)) > 1).sum())
        label, tone = "Movements proved", "good" if matching == judgement.balances else "plain"
    oldest = "none waited"
    if len(waiting):
        oldest = f"the oldest then {length_text(waiting['age'].max().value)}"
    return (
        KeyFigure(
            label,
            f"{matching:,} of {judgement.balances:,}",
            f"{number_of(comparison['profile_id'].nunique(), 'profile')}, "
            f"{number_of(comparison['asset'].nunique(), 'asset')}",
            "reconciliation",
            "bad" if judgement.breaks else tone,
            was["matching"] or "",
        ),
        KeyFigure(
            "Transfers",
            f"{sum(states.values()):,}",
            f"{completed:,} completed, {states.get('FAILED', 0):,} failed, "
            f"{states.get('PENDING', 0):,} pending now"
            + (f"; {later:,} dated later than this report left out" if later else ""),
            "transfers",
            **against(sum(states.values()), was["transfers"]),
        ),
        KeyFigure(
            "Open items",
            f"{len(waiting):,}",
            f"pending at {aged_at}; {oldest}",
            "open_items",
            **against(len(waiting), was["open"]),
        ),
        KeyFigure(
            "Fees in USD",
            money_text(dollars),
            "completed transfers",
            "fees",
            **against(dollars, was["fees"]),
        ),
        KeyFigure(
            "Row checks",
            "all hold" if broken_rules.empty else f"{len(broken_rules):,} violated",
            "totals, fees, states, times, ids",
            "violations",
            "good" if broken_rules.empty else "bad",
            ""
            if was["violated"] is None
            else f"{was['violated']:,} violated"
            if was["violated"]
            else "all hold",
        ),
    )


def figures_before(
    rows: Relation,
    made: Relation,
    span: Span,
    judgement: Judgement,
    basis: Basis,
    violated: int,
) -> dict[str, Any]:
    """The key figures of the period ``span``, as they are known now; what was pending then is known
    on the settled basis only, what matched where balances were observed then. ``made`` are the
    rows by when they were created, of which ``rows`` have their place in time."""
    inside = span.of(rows, PLACED)
    (fees_paid, transfers_), = inside.aggregate(
        f"sum(fee) FILTER ({COMPLETE} AND {ASSET} = 'USD'), count(*)"
    ).fetchall()  # fmt: skip
    seen = judgement.observations
    last = seen[seen["observed_at"] < moment(span.end)].groupby(KEYS)["difference"].last()
    known = judgement.since is None and len(last) > 0
    return {
        "matching": f"{int((last == 0).sum()):,} of {len(last):,}" if known else None,
        "transfers": int(transfers_),
        "open": count(open_then(Span(None, span.end).of(made), span))
        if basis == "settled" else None,
        "fees": fees_paid or Decimal(0),
        "violated": violated,
    }  # fmt: skip


def against(now: Any, before: Any) -> dict[str, Any]:
    """``before`` in words, and what ``now`` is more, exactly and in per cent."""
    if before is None:
        return {}
    more = EXACT.subtract(Decimal(now), Decimal(before))
    if isinstance(before, int):
        was, change = f"{before:,}", f"{more:+,f}"
    else:
        was, change = money_text(before), f"{'+' if more > 0 else ''}{money_text(more)}"
    if not more:
        return {"before": was, "change": "no change"}
    share = f" ({float(Fraction(more) / Fraction(before)) * 100:+,.1f} %)" if before else ""
    return {"before": was, "change": f"{change}{share}".replace("-", "−")}


def open_then(rows: Relation, span: Span) -> Relation:
    """Of the ``rows`` created until ``span`` ends, those that were pending then, as they were: what
    is pending now, what settled later, and what failed later."""
    cleared = (
        f"CASE WHEN {COMPLETE} THEN settled_at WHEN status = 'FAILED' THEN {failed_at(rows)} END"
    )
    rows = rows.filter(f"status = 'PENDING' OR epoch_ns({cleared}) >= {span.end}")
    others = [name for name in rows.columns if name not in ("status", "cleared_at")]
    columns = ", ".join([*others, "'PENDING' AS status", f"{cleared} AS cleared_at"])
    return rows.project(columns)


def open_items(rows: Relation, at: pd.Timestamp) -> pd.DataFrame:
    """``rows``, which are pending, with their ``age``, and when they cleared, where that is
    known."""
    columns = "id, ref_id, created_at, type, asset, balance_asset, amount, fee, total, profile_id"
    cleared = "cleared_at" if "cleared_at" in rows.columns else "NULL::TIMESTAMPTZ_NS AS cleared_at"
    found = frame_of(rows.order("created_at, id").project(f"{columns}, {cleared}"))
    return found.assign(age=at - found["created_at"])


def violations(known: Relation, span: Span, before: Span | None, complete: bool) -> pd.DataFrame:
    """Of the transfers in ``span`` and the period ``before``, which ``now`` tells apart, seen among
    all that are known: the other half of a transfer, or what a conversion names, may be of another
    month. Not ``complete``: what came before is not there."""
    first = -(2**63) + 1 if span.first is None else span.first
    both = Span(span.first if before is None else before.first, span.end).of(known, PLACED)
    ids = both.aggregate(f"id, max(epoch_ns({PLACED})) >= {first} AS now", "id").set_alias("mine")
    found = checks.invariants(known, complete).set_alias("found")
    mine = found.join(ids, "found.transfer_id IS NOT DISTINCT FROM mine.id")
    names = ", ".join(VIOLATION.names)
    return frame_of(mine.project(f"{names}, now").order(names))


def anomalies(rows: Relation, span: Span, accounts: pd.DataFrame | None) -> pd.DataFrame:
    """``checks.anomalies`` of the transfers in ``span``, seen against all before."""
    known = None if accounts is None else arrow_table(accounts, "fiat_accounts")
    found = checks.anomalies(rows, fiat_accounts=known)
    return frame_of(span.of(found).order("created_at DESC, rule, transfer_id"))


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
