"""Transfers as double entry: each one a balanced entry of postings to the accounts of a chart, in
which a debit adds to the customer's funds and a credit takes from them."""

from __future__ import annotations

import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, get_args

import narwhals as nw
import pyarrow as pa

from fundlab.analysis.counting import (
    KEYS,
    SHOWN_ROWS,
    choice,
    moment_of,
    opening_balances,
    refuse,
    span_in,
)
from fundlab.analysis.counting import transfer_columns as wanted
from fundlab.analysis.engines import (
    JSON,
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
)
from fundlab.analysis.periods import days_between, local_ns, whole
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, UnmappedWarning, number_of, reason_of, shorten
from fundlab.base.periods import DAY, Moment
from fundlab.models import INTERNAL_TYPES
from fundlab.settings.labels import names_given
from fundlab.tables.expand import member
from fundlab.tables.transfers import (
    ZERO,
    Basis,
    Rows,
    View,
    change,
    counts,
    is_half,
    moved_asset,
    placed_at,
)

__all__ = ["Accounts", "entries"]
__dir__ = __all__.copy  # what completion offers

Role = Literal[
    "balance", "counterparty", "fee", "conversion", "internal", "held", "opening", "unexplained"
]
"""What a posting is for: ``balance``, the funds of a profile; ``counterparty``, where money came
from or went; ``conversion``, what one asset became in another; ``internal``, a half whose other
half is not of the same day; ``held``, of a pending debit (view ``available``); ``unexplained``,
what the total of a transfer has beside amount and fee."""

OPENING: Final = "opening"
UNMAPPED: Final = "Equity:Unmapped"
ENTRIES: Final = columns(
    ("entry", TEXT_TYPE),
    ("date", pa.date32()),
    ("at", TIME_TYPE),
    ("account", TEXT_TYPE),
    ("debit credit", AMOUNT_TYPE),
    ("asset transfer_id type reference memo", TEXT_TYPE),
)
_MATCHED: Final = ("role", "type", "profile_id", "asset", "direction", "crypto_network")
_RULE_KEYS: Final = ("role", "type", "profile", "asset", "direction", "network")
_NOT_IN_A_NAME: Final = re.compile(r"[^0-9A-Za-z]+")


@dataclass(frozen=True)
class Rule:
    """A line of a chart: the postings whose facts fit every pattern go to ``account``."""

    account: str
    patterns: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)

    def fits(self, facts: Mapping[str, str], metadata: str | None) -> bool:
        """A transfer fits a pattern of metadata only where it has that key."""
        if not all(fnmatchcase(facts[name], one) for name, one in self.patterns.items()):
            return False
        values = {key: member(metadata, key) if metadata else None for key in self.metadata}
        return all(
            value is not None and fnmatchcase(value, self.metadata[key])
            for key, value in values.items()
        )


@dataclass(frozen=True)
class Accounts:
    """A chart of accounts: rules in order, the first that fits a posting names its account, and
    what profiles are called in account names."""

    rules: Sequence[Rule]
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls, path: str | Path | None = None, names: Mapping[str, str] | None = None
    ) -> Accounts:
        """The chart of a TOML file, or the one that comes with the package.

        Each ``[[account]]`` has the key ``account`` and any of ``role`` (:data:`Role`), ``type``,
        ``profile`` (id or name), ``asset``, ``direction``, ``network`` and a table ``metadata``;
        their values are patterns with ``*``. An account may name ``{profile}``, ``{asset}``,
        ``{type}``, ``{network}`` and ``{direction}``. The table ``[profiles]`` gives ids names;
        ``names`` are those of profiles that it lacks. Raises :class:`AnalysisError` naming what in
        the file cannot be used.
        """
        if not isinstance(path, str | PathLike | None):
            raise AnalysisError(f"accounts={shorten(path)}: give the path of a TOML file")
        given = files("fundlab.analysis") / "accounts.toml" if path is None else Path(path)
        try:
            content = tomllib.loads(given.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise AnalysisError(f"{given} is not valid TOML: {error}") from error
        except (OSError, ValueError) as error:  # the latter of a name that no file can have
            raise AnalysisError(f"{given} cannot be read: {reason_of(error)}") from error
        unknown = sorted(set(content) - {"account", "profiles"})
        rules = content.get("account", [])
        profiles = content.get("profiles", {})
        if unknown or not isinstance(rules, list) or not rules:
            what = f"has {', '.join(unknown)}" if unknown else "has no [[account]]"
            raise AnalysisError(f"{given} {what}; give [[account]] rules and a table [profiles]")
        if not isinstance(profiles, dict) or not all(map(_is_text, profiles.values())):
            raise AnalysisError(f'{given}: [profiles] must hold id = "name"')
        called = {key.lower(): str(name) for key, name in {**(names or {}), **profiles}.items()}
        return cls([_rule(given, place, rule) for place, rule in enumerate(rules, 1)], called)

    def account_of(self, facts: Mapping[str, str], metadata: str | None) -> str | None:
        """The account of a posting with these ``facts`` (``role``, ``type``, ``profile_id``,
        ``asset``, ``direction``, ``crypto_network``), ``None`` where no rule fits."""
        profile = facts["profile_id"]
        named = self.names.get(profile.lower(), profile)
        by_name = {
            "role": facts["role"], "type": facts["type"], "profile": profile,
            "asset": facts["asset"], "direction": facts["direction"],
            "network": facts["crypto_network"],
        }  # fmt: skip
        for rule in self.rules:
            if rule.fits(by_name, metadata) or (
                named != profile and rule.fits(by_name | {"profile": named}, metadata)
            ):
                key = profile.lower()
                parts = by_name | {"profile": self._components.get(key, f"Profile-{key}")}
                return rule.account.format_map({n: _component(v) for n, v in parts.items()})
        return None

    @cached_property
    def _components(self) -> Mapping[str, str]:
        """How each named profile stands in an account name; those that would stand alike do with
        their id."""
        plain = {key: _component(name) for key, name in self.names.items()}
        count = Counter(plain.values())
        return {key: f"{one}-{key}" if count[one] > 1 else one for key, one in plain.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _rule(given: object, place: int, rule: Any) -> Rule:
    texts = dict(rule) if isinstance(rule, dict) else {}
    metadata = texts.pop("metadata", {})
    account = texts.pop("account", None)
    wrong = [name for name in texts if name not in _RULE_KEYS or not _is_text(texts[name])]
    if wrong or not isinstance(metadata, dict) or not all(map(_is_text, metadata.values())):
        raise AnalysisError(
            f"{given}: {wrong[0] if wrong else 'metadata'} of [[account]] {place} is not a pattern "
            f"of {', '.join(_RULE_KEYS)} or metadata"
        )
    if "role" in texts and not any(fnmatchcase(role, texts["role"]) for role in get_args(Role)):
        raise AnalysisError(
            f"{given}: role {texts['role']!r} of [[account]] {place} is not one of "
            f"{', '.join(get_args(Role))}"
        )
    if not isinstance(account, str) or not account:
        raise AnalysisError(f"{given}: [[account]] {place} has no text under 'account'")
    try:
        account.format_map(dict.fromkeys(_RULE_KEYS[1:], ""))
    except (KeyError, ValueError, IndexError) as error:
        raise AnalysisError(
            f"{given}: account {account!r} of [[account]] {place} names something else than "
            f"{', '.join(f'{{{name}}}' for name in _RULE_KEYS[1:])}: {error}"
        ) from error
    return Rule(account, texts, metadata)


def _component(text: str) -> str:
    """``text`` as every ledger takes a part of an account's name: letters, digits and dashes, a
    capital first; the constants of the interface in ordinary letters."""
    plain = _NOT_IN_A_NAME.sub("-", text).strip("-")
    if plain.isupper() and "-" in plain:
        plain = plain.title()
    return plain[:1].upper() + plain[1:] if plain else "None"


def entries(
    transfers: FrameT,
    accounts: Accounts | str | Path | None = None,
    opening: object = None,
    period: str | tuple[Moment, Moment] | None = None,
    view: View = "ledger",
    basis: Basis = "created",
    tz: str = "UTC",
) -> FrameT:
    """``entry``, ``date`` (in ``tz``), ``at``, ``account``, ``debit``, ``credit`` (decimals, one of
    the two), ``asset``, ``transfer_id``, ``type``, ``reference``, ``memo``: the postings of each
    completed transfer, sorted by date; within an entry the debits of each asset equal its credits.

    A fee is a posting of its own. A conversion passes through the account of conversions, once in
    each asset. Both halves of an internal transfer are one entry under their ``group_id`` if they
    are of one day and amount; other entries have the id of their transfer. In the view
    ``available`` pending debits are entries too, to the account of what is held. ``opening``
    (``profile_id``, ``asset``, ``balance``) is one more entry, ``opening``, at the first moment;
    with ``period`` only its entries are given, and ``opening`` with all that moved before it.

    ``accounts`` is a chart (:class:`Accounts`) or the path of its TOML file, where profiles have
    the names of the settings unless it gives others; a posting that none of its rules fits goes to
    ``Equity:Unmapped``, with one warning (``UnmappedWarning``). Raises :class:`AnalysisError` for a
    chart or columns that cannot be used and invalid rows.

    >>> booked = fl.books.entries(transfers, period="2026-10-02")
    >>> booked[["entry", "account", "debit", "credit"]]
         entry                         account  debit  credit
    0  opening     Assets:Funding:Profile-main   1000    <NA>
    1  opening         Equity:Opening-Balances   <NA>    1000
    2       t2     Assets:Funding:Profile-main   <NA>     225
    3       t2   Expenses:Fees:Wire-Withdrawal     25    <NA>
    4       t2  Assets:Transit:Wire-Withdrawal    200    <NA>
    """
    chart = accounts if isinstance(accounts, Accounts) else Accounts.read(accounts, names_given())
    by = moment_of(basis)
    choice("view", view, get_args(View))
    span = None if period is None else span_in(transfers, period, tz)
    with Workbench(transfers, by) as bench:
        postings = postings_of(bench, transfers, view, basis)
        postings = with_opening(bench, postings, opening, span)
        return bench.give(in_entries(bench, with_accounts(bench, postings, chart), tz), ENTRIES)


def postings_of(bench: Workbench[Any], transfers: object, view: View, basis: Basis) -> Rows:
    """Each posting of each transfer that counts in ``view``: the facts that a chart goes by, ``at``
    (ns), ``order`` within its entry, and ``amount``, which is more than 0 for a debit."""
    by = moment_of(basis)
    optional = ("ref_id", "memo", "group_id", "crypto_network")
    extra = {"type": TEXT, "amount": MONEY, "fee": MONEY, "created_at": TIME}
    plain = wanted(by, optional, **extra)
    want = Wanted(plain.frame, plain.columns, {**plain.optional, "metadata": JSON})
    needed = ("id", *KEYS, "type", "amount", "fee", "total", "created_at")
    rows = bench.take(transfers, want)
    refuse(bench, rows, needed, among=counts(view), uncountable=True)
    done = counts("ledger")
    refuse(bench, rows, (by,), among=done)
    converted = nw.coalesce(nw.col("balance_asset") != nw.col("asset"), nw.lit(False))
    rows = rows.filter(counts(view)).with_columns(
        own=nw.col("asset"),
        moved=moved_asset(),
        at=placed_at(basis),
        change=change(),
        signed=change("amount"),
        done=done,
        half=is_half(),
        converted=converted,
        internal=nw.col("type").is_in(INTERNAL_TYPES),
    )
    rows = bench.constant(bench.collect(rows))  # once, for eight kinds of posting
    done, converted, internal = (nw.col(name) for name in ("done", "converted", "internal"))
    gross = nw.col("change") + nw.col("fee")  # what moved before the fee, in the asset that moved
    legs: tuple[tuple[Role, str, nw.Expr, nw.Expr | None], ...] = (
        ("balance", "moved", nw.col("change"), None),
        ("held", "moved", ZERO - nw.col("change"), ~done),
        ("fee", "moved", nw.col("fee"), done),
        ("internal", "own", ZERO - nw.col("signed"), done & internal),
        ("counterparty", "own", ZERO - nw.col("signed"), done & ~internal),
        ("conversion", "own", nw.col("signed"), done & converted),
        ("conversion", "moved", ZERO - gross, done & converted),
        ("unexplained", "moved", nw.col("signed") - gross, done & ~converted),
    )
    every = []
    for order, (role, asset, amount, those) in enumerate(legs):
        chosen = rows if those is None else rows.filter(those)
        every.append(
            chosen.select(
                "id", "profile_id", "type", "direction", "crypto_network", "ref_id", "memo",
                "metadata", "group_id", "half", "at",
                entry=nw.col("id"), role=nw.lit(role), asset=nw.col(asset), amount=amount,
                order=nw.lit(order).cast(nw.Int64),
            ).filter(nw.col("amount") != 0)
        )  # fmt: skip
    return nw.concat(every)


def with_opening(
    bench: Workbench[Any], postings: Rows, opening: object, span: tuple[int, int] | None
) -> Rows:
    """``postings`` of ``span``, and before them an entry of what was there when it began."""
    opened = opening_balances(bench, opening).select(*KEYS, role=nw.lit("balance"), amount="opened")
    if span is None:
        first = bench.collect(postings.select(nw.col("at").min())).column(0)[0].as_py() or 0
    else:
        first, end = span
        kept = nw.col("role").is_in(("balance", "held")) & (nw.col("at") < first)
        before = postings.filter(kept).select(*KEYS, "role", "amount")
        opened = nw.concat([opened, before])
        postings = postings.filter(nw.col("at") >= first, nw.col("at") < end)
    opened = opened.group_by(*KEYS, "role").agg(nw.col("amount").sum())
    opened = opened.filter(nw.col("amount") != 0)
    nothing, text = nw.lit(None).cast(nw.String), nw.lit("")
    sides = []
    for order, (role, amount) in enumerate(
        ((nw.col("role"), nw.col("amount")), (nw.lit(OPENING), ZERO - nw.col("amount")))
    ):
        facts = {"type": text, "direction": text, "crypto_network": text, "entry": nw.lit(OPENING)}
        rest = dict.fromkeys(("id", "ref_id", "memo", "metadata", "group_id"), nothing)
        sides.append(
            opened.select(
                *KEYS,
                role=role,
                amount=amount,
                at=nw.lit(first).cast(nw.Int64),
                order=nw.lit(order).cast(nw.Int64),
                half=nw.lit(False),
                **facts,
                **rest,
            ).select(*postings.collect_schema().names())
        )
    return nw.concat([*sides, postings])


def with_accounts(bench: Workbench[Any], postings: Rows, chart: Accounts) -> Rows:
    """``postings`` with the column ``account``; warns (``UnmappedWarning``) of those that no rule
    of ``chart`` fits."""
    facts = [*_MATCHED, *(["metadata"] if any(rule.metadata for rule in chart.rules) else [])]
    rows = postings.with_columns(nw.coalesce(nw.col(name), nw.lit("")) for name in facts)
    kinds = bench.collect(rows.group_by(*facts).agg(rows=nw.len()).sort(*facts))
    names: list[str] = []
    unmapped: list[dict[str, Any]] = []
    for kind in kinds.to_pylist():
        account = chart.account_of(kind, kind.get("metadata") or None)
        if account is None:
            unmapped.append(kind)
        names.append(account or UNMAPPED)
    if unmapped:
        named = [
            " ".join(f"{name}={kind[name]}" for name in facts if kind[name])
            for kind in unmapped[:SHOWN_ROWS]
        ]
        count = sum(kind["rows"] for kind in unmapped)
        warnings.warn(
            f"{number_of(count, 'posting')} of {number_of(len(unmapped), 'kind')} fit no rule of "
            f"the chart and go to {UNMAPPED}: {'; '.join(named)}"
            + "; and more"
            * (len(unmapped) > SHOWN_ROWS),
            UnmappedWarning,
            stacklevel=3,
        )
    lines = kinds.select(facts).append_column("account", pa.array(names, TEXT_TYPE))
    # Computed here and once: what follows looks at them several times.
    return bench.constant(bench.collect(rows.join(bench.constant(lines), on=facts, how="inner")))


def correcting(now: Rows, then: Rows, first: int) -> Rows:
    """Postings at ``first`` that lead from the books ``then`` to those of ``now``: by how much each
    transfer has more or less on an account. Both have their accounts."""
    key = ("id", "entry", "profile_id", "type", "asset", "account")
    sides = (
        rows.select(*key, "ref_id", "memo", amount=amount)
        for rows, amount in ((now, nw.col("amount")), (then, ZERO - nw.col("amount")))
    )
    moved = (
        nw.concat([*sides])
        .group_by(*key)
        .agg(nw.col("amount").sum(), nw.col("ref_id").max(), nw.col("memo").max())
    )
    return moved.filter(nw.col("amount") != 0).with_columns(
        at=nw.lit(first).cast(nw.Int64),
        order=nw.lit(0).cast(nw.Int64),
        half=nw.lit(False),
        group_id=nw.lit(None).cast(nw.String),
        role=nw.lit("correction"),
    )


def in_entries(bench: Workbench[Any], postings: Rows, tz: str) -> Rows:
    """``postings``, which have their accounts, with their days in ``tz`` and in order; the halves
    of an internal transfer that are of one day and amount as one entry."""
    ends = bench.collect(postings.select(nw.col("at").min(), last=nw.col("at").max()))
    first, last = (ends.column(name)[0].as_py() or 0 for name in ("at", "last"))
    rows = postings.with_columns(day=whole(local_ns(tz, first, last), DAY))
    halves = rows.filter(nw.col("half"), nw.col("role") == "internal")
    pairs = halves.group_by("group_id").agg(
        entry_at=nw.col("at").max(),
        legs=nw.len(),
        rest=nw.col("amount").sum(),
        first_day=nw.col("day").min(),
        last_day=nw.col("day").max(),
        first_asset=nw.col("asset").min(),
        last_asset=nw.col("asset").max(),
    )
    pairs = pairs.filter(
        nw.col("legs") == 2,
        nw.col("rest") == 0,
        nw.col("first_day") == nw.col("last_day"),
        nw.col("first_asset") == nw.col("last_asset"),
    )
    rows = rows.join(pairs.select("group_id", "entry_at"), on="group_id", how="left")
    paired = ~nw.col("entry_at").is_null() & nw.col("half")
    rows = rows.filter(~(paired & (nw.col("role") == "internal"))).with_columns(
        entry=nw.when(paired).then(nw.col("group_id")).otherwise(nw.col("entry")),
        entry_at=nw.coalesce(nw.when(paired).then(nw.col("entry_at")), nw.col("at")),
    )
    calendar = bench.constant(days_between(first // DAY - 1, last // DAY + 1))
    debit = nw.when(nw.col("amount") > 0).then(nw.col("amount"))
    credit = nw.when(nw.col("amount") < 0).then(ZERO - nw.col("amount"))
    dated = rows.join(calendar, on="day", how="inner").with_columns(
        debit=debit, credit=credit, transfer_id=nw.col("id"), reference=nw.col("ref_id")
    )
    return dated.sort("day", "entry_at", "entry", "at", "id", *KEYS, "order", "account")
