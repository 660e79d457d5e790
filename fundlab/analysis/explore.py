"""The differences between rebuilt and reported balances, to look into in a notebook.

A page of HTML that folds and unfolds by itself: no widget, no script and no kernel, so that it
works alike in Jupyter, marimo, VS Code, on a page on disk and in print.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from fundlab.analysis.compare import compare
from fundlab.analysis.explain import explain
from fundlab.base.errors import InvalidRequest, number_of, printable, shorten
from fundlab.base.values import money_text
from fundlab.display import CARD_STYLE, Table, show, template
from fundlab.evidence.verdict import SOUND
from fundlab.settings.labels import name_of

_AROUND: Final = 5
"""How many transfers are shown before and after a candidate."""
_COLUMNS: Final = ["created_at", "id", "type", "direction", "total", "asset", "status", "amount",
                   "fee", "updated_at"]  # fmt: skip
_SIDES: Final = ["rebuilt", "reported", "difference", "asset", "status"]


@dataclass(frozen=True, repr=False)
class Candidate:
    """What may have made a difference: the words, the transfer with those ``around`` it, what
    these are ``said`` to be, and its versions."""

    cause: str
    detail: str
    said: str
    around: Table | None
    versions: Table | None

    @property
    def words(self) -> str:
        return self.cause.replace("_", " ")


@dataclass(frozen=True, repr=False)
class Difference:
    """A balance that differs: both sides, its newest transfers, and what may have made the
    difference, likeliest first."""

    title: str
    profile_id: str
    sides: Table
    newest: Table
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, repr=False)
class Exploration:
    """What :func:`explore` found; a notebook shows it unfolding, a terminal as lines."""

    differences: tuple[Difference, ...]
    compared: int

    @property
    def headline(self) -> str:
        balances = number_of(self.compared, "balance")
        if not self.differences:
            return f"No differences: {balances} compared"
        return f"{number_of(len(self.differences), 'difference')} in {balances}"

    def __repr__(self) -> str:
        lines = [self.headline]
        for difference in self.differences:
            lines.append(difference.title)
            lines += [
                f"  {rank}. {found.words}: {found.detail}"
                for rank, found in enumerate(difference.candidates, 1)
            ]
            lines += ["  no transfer explains it"] * (not difference.candidates)
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        return template(_PAGE).render(found=self, style=CARD_STYLE)


def explore(
    transfers: pd.DataFrame,
    reported: pd.DataFrame,
    assertions: pd.DataFrame | None = None,
    opening: pd.DataFrame | None = None,
    *,
    history: pd.DataFrame | None = None,
) -> Exploration:
    """Each difference that :func:`compare` finds, to unfold in a notebook: its candidates (those
    of :func:`explain`, likeliest first), of each the transfers around it, and with ``history``
    (``store.history("transfers")``) every version of it that was seen.

    The arguments are those of :func:`explain`, as pandas frames. Raises ``InvalidRequest`` for
    anything else.

    >>> rows, balances = store.read("transfers"), store.read("balances")
    >>> fl.reconcile.explore(rows, balances)
    No differences: ... balances compared
    >>> fl.reconcile.explore(rows.iloc[1:], balances).headline
    '1 difference in ... balances'
    """
    for name, frame in (("transfers", transfers), ("reported", reported)):
        if not isinstance(frame, pd.DataFrame):
            raise InvalidRequest(f"{name}={shorten(frame)} is not a frame; give a pandas DataFrame")
    table = compare(transfers, reported, opening=opening)
    causes = explain(transfers, reported, assertions, opening)
    moved = transfers["asset"]
    if "balance_asset" in transfers:
        other = transfers["balance_asset"].astype("object")  # categories take no other value
        moved = other.where(other.notna(), moved.astype("object"))
    shown = [name for name in _COLUMNS if name in transfers]
    differences = []
    broken = table[~table["status"].isin(SOUND)]
    for number in range(len(broken)):
        row = broken.iloc[number]
        profile, asset = row["profile_id"], row["asset"]
        own = transfers[(transfers["profile_id"] == profile) & (moved == asset)]
        own = own.sort_values(["created_at", "id"], kind="stable", ignore_index=True)
        candidates = []
        mine = causes[(causes["profile_id"] == profile) & (causes["asset"] == asset)]
        for _, cause in mine.sort_values("rank").iterrows():
            places = own.index[own["id"] == cause["transfer_id"]]
            around = versions = None
            elsewhere = transfers[transfers["id"] == cause["transfer_id"]]
            if len(places):
                near = own.iloc[max(places[0] - _AROUND, 0) : places[0] + _AROUND + 1]
                it = (near["id"] == cause["transfer_id"]).map({True: "▸", False: ""})
                around = show(near[shown].assign(**{"": it})[["", *shown]], rows=len(near))
            elif len(elsewhere):
                around = show(elsewhere[["profile_id", *shown]], rows=len(elsewhere))
            if history is not None:
                seen = history[history["id"] == cause["transfer_id"]]
                if len(seen):
                    kept = [name for name in ("published_at", *shown) if name in seen]
                    versions = show(seen[kept], rows=len(seen))
            said = "The transfer (▸) among those before and after it"
            if not len(places):
                said = "The transfer, which is of another balance"
            words = str(cause["cause"]), str(cause["detail"])
            candidates.append(Candidate(*words, said, around, versions))
        differences.append(
            Difference(
                f"{money_text(row['difference'])} {asset} of "
                f"{name_of(profile) or f'profile {profile}'}",
                profile,
                replace(show(broken.iloc[[number]][_SIDES]), note=""),
                show(own[shown].iloc[::-1], rows=2 * _AROUND),
                tuple(candidates),
            )
        )
    return Exploration(tuple(differences), len(table))


_PAGE: Final = """\
{% macro drawn(table) %}
<div class="fl-table"><table>{{ table.body() }}</table></div>
{% if table.note %}
<div class="fl-more">{{ table.note }}</div>
{% endif %}
{% endmacro %}
<div class="fl-card fl-wide fl-explore"><style>{{ style|safe }}
.fl-card.fl-explore { max-width: none; }
.fl-explore details { border-top: 1px solid var(--line); }
.fl-explore summary { cursor: pointer; padding: 8px 14px; overflow-wrap: anywhere; }
.fl-explore summary:hover { background: color-mix(in srgb, var(--ink) 6%, transparent); }
.fl-explore summary b { font-weight: 600; }
.fl-explore details details { margin-left: 14px; }
.fl-explore .fl-head { padding: 8px 14px 2px; color: var(--soft); font-size: 13px; }
</style>
<div class="fl-verdict fl-{{ 'bad' if found.differences else 'good' }}">\
<small>Rebuilt and reported balances</small><b>{{ found.headline }}</b></div>
{% for one in found.differences %}
<details{{ ' open' if loop.first }}><summary><b title="{{ one.profile_id }}">{{ one.title }}</b> ·
{{ one.candidates|length }} candidate{{ 's' if one.candidates|length != 1 }}</summary>
<div class="fl-table"><table>{{ one.sides.body() }}</table></div>
{% for candidate in one.candidates %}
<details{{ ' open' if loop.first }}><summary>{{ loop.index }}. <b>{{ candidate.words }}</b>:
{{ candidate.detail }}</summary>
{% if candidate.around %}
<div class="fl-head">{{ candidate.said }}</div>
{{ drawn(candidate.around) }}
{% endif %}
{% if candidate.versions %}
<div class="fl-head">Each version of it that was seen</div>
{{ drawn(candidate.versions) }}
{% endif %}
</details>
{% endfor %}
<details><summary>Transfers of this balance, newest first</summary>
{{ drawn(one.newest) }}
</details>
</details>
{% endfor %}
</div>
"""
