"""The frozen :class:`Report`: every figure of a period, none of its looks.

Its verdict is the judgement of the store (`fundlab.evidence.verdict`); ``build`` puts it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from fundlab.analysis.value import MAX_AGE
from fundlab.base.errors import number_of, printable, with_likely
from fundlab.display import Card, Row, Shown, Tone
from fundlab.evidence.verdict import Judgement
from fundlab.payments.reconciliation import Reconciliation as Payments
from fundlab.tables.transfers import Basis

if TYPE_CHECKING:
    from fundlab.bank.reconciliation import Reconciliation

_COMPONENTS: Final = ("fundlab", "pandas", "pyarrow", "duckdb", "narwhals", "matplotlib")


BY_WHEN: Final[Mapping[Basis, str]] = {
    "settled": "by when transfers settled", "created": "by when transfers were created",
}  # fmt: skip


@dataclass(frozen=True)
class KeyFigure:
    """A headline figure; the table ``rows`` of the page has what it is made of. ``before`` is what
    it was the period before, ``change`` what that is more or less; empty where that is not known.
    """

    label: str
    value: str
    note: str
    rows: str
    tone: Tone = "plain"
    before: str = ""
    change: str = ""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """Everything a report shows. Frames carry exact money and times in UTC; do not change them.
    They are ``frames`` by the names of their sections, and attributes: ``report.balances``.

    The period is ``first`` (included; ``None``: from the beginning) to ``end`` (excluded), as known
    at ``as_of``, its transfers until ``known_until``; ``ends`` is when it will be over, if it is
    not, ``known_from`` when the first transfer was created, if that is after it. By ``basis`` a
    transfer belongs to it when it ``settled`` or was ``created``. Frames, all of the period unless
    said otherwise:

    ``balances``
        ``profile_id``, ``asset``, ``opening``, ``inflow``, ``outflow``, ``closing``, ``held`` by
        pending debits (on the settled basis those pending when the period ended, of which some
        settled or failed later), ``available``; where the last close would now be another one,
        and has its days in the same zone, ``opening`` is its closing, and ``restated`` leads from
        there to what is known now.
    ``roll_forward``
        as ``balances.roll_forward``, with the line ``restatement`` after such an opening.
    ``restatements``
        of every closed period that has moved: ``period``, ``basis``, and the bridge to what is
        known now, transfer by transfer.
    ``by_profile``
        by ``asset`` the closing of the busiest profiles and of the ``others``, ``closing``,
        ``opening`` and ``change`` of all.
    ``course``
        ``profile_id``, ``asset``, ``date``, ``balance`` at the close of each day: the busiest
        profiles, the others summed as ``n others``.
    ``assertions``
        the balances observed, as ``Store.assertions`` gives them, ``rebuilt`` with the opening.
    ``movements``
        ``asset``, ``step``, ``kind`` (``balance`` or ``change``), ``amount``: from the opening to
        the closing by type of transfer.
    ``transfers``
        ``type``, ``asset``, ``status``, ``count``, ``amount``.
    ``flows``, ``daily_flows``
        ``period``, ``asset``, ``inflow``, ``outflow``, ``net``: by ``freq``, and of the last days,
        transfers between own profiles left out.
    ``flux``
        as ``flux.explain``, against the period before, transfers between own profiles left out.
    ``exposure``, ``worth``
        what the closing balances are worth in dollars, as ``value.of`` gives it, and what came,
        went and was charged in the last thirteen months, as ``value.totals``: no part of the proof,
        by prices not older than ``max_age``.
    ``links``
        ``stage`` (1 into profiles, 2 out of them), ``source``, ``target``, ``asset``, ``amount``.
    ``fees``
        as ``fees.effective``, with ``bps_before`` and ``drift`` against the period before.
    ``fees_over_time``, ``settlement``, ``reconciliation``, ``causes``, ``ageing``,
    ``violations``, ``anomalies``, ``pairs``
        as the functions of :mod:`fundlab.analysis` give them; ``reconciliation`` (of everything
        known, not only the period) is the table of ``verdict``, with ``since``, when a break was
        first seen.
    ``open_items``
        transfers pending at ``aged_at`` (in words: on the settled basis the end of the period, else
        ``as_of``) with their ``age`` then, and ``cleared_at`` where they settled or failed later.
    ``withdrawals``, ``recipients``
        all one by one, the latest first, with the ``difference`` from the journal of payments
        where there is one, and summed by where they went, account numbers and addresses masked.
    ``hours``
        ``created_at`` (a quarter of an hour), ``count``.
    ``events``, ``notable``
        counts by type, and the events that ask for a look.

    ``before`` is the period before, which the key figures are compared with. ``labels`` is what
    each profile is called, no two alike: by the name it has in the settings, or
    shortened. ``bank`` is the reconciliation with the bank, where its statements are given,
    ``payments`` that of this user's journal with the service, of everything known.
    ``files`` are those it was written to, the page first.
    """

    title: str
    period: str
    first: pd.Timestamp | None
    end: pd.Timestamp
    as_of: pd.Timestamp
    first_change: pd.Timestamp | None
    last_change: pd.Timestamp | None
    tz: str
    freq: str
    verdict: Judgement
    key_figures: tuple[KeyFigure, ...]
    frames: Mapping[str, pd.DataFrame] = field(repr=False)
    aged_at: str
    labels: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    made_here: bool = False
    basis: Basis = "created"
    moved: tuple[str, ...] = ()
    ends: pd.Timestamp | None = None
    known_from: pd.Timestamp | None = None
    known_until: pd.Timestamp | None = None
    max_age: str = MAX_AGE
    sources: Mapping[str, str] = field(default_factory=dict)
    bank: Reconciliation | None = None
    payments: Payments | None = None
    files: tuple[Path, ...] = ()

    def __getattr__(self, name: str) -> pd.DataFrame:
        frames: Mapping[str, pd.DataFrame] = self.__dict__.get("frames", {})
        if name not in frames:
            raise AttributeError(
                f"a report has no {with_likely(repr(name), frames)}; "
                f"its frames are {', '.join(frames)}"
            )
        return frames[name]

    @property
    def busiest(self) -> list[str]:
        """The assets by their completed transfers, those with breaks before the others."""
        counts = self.fees.groupby("asset", observed=True)["count"].sum().sort_index()
        busy = counts.sort_values(ascending=False, kind="stable").index.astype(str)
        broken = {*self.breaks["asset"].astype(str)}
        first = [*(asset for asset in busy if asset in broken), *sorted(broken)]
        return [*dict.fromkeys([*first, *busy])]

    @property
    def dates(self) -> str:
        """The period, as of when it is known, and what belongs to it."""
        parts = [f"as of {self.as_of:%Y-%m-%d %H:%M:%S} UTC"]
        if self.first is not None:
            parts.insert(0, span_text(self.first, self.end, self.tz))
        elif self.known_until is not None and self.known_until < self.as_of:
            parts.append(f"transfers known until {self.known_until:%Y-%m-%d %H:%M:%S} UTC")
        return " · ".join([*parts, BY_WHEN[self.basis]])

    @property
    def breaks(self) -> pd.DataFrame:
        """The rows of ``reconciliation`` that break."""
        return self.verdict.broken

    @property
    def tone(self) -> Tone:
        """How the verdict is shown: only what is proved from the first transfer on is good, and
        only while no closed period has moved, the bank's side is explained and each payment is as
        its card showed it."""
        tone = self.verdict.tone
        warned = self.moved or self.bank_breaks or self.payments_differ
        return "warn" if warned and tone == "good" else tone

    @property
    def remark(self) -> str:
        """What a reader must know of the period: what the store lacks of it, and that it is not
        over, or was over before all that is known."""
        said = []
        if self.first is not None:
            said.append(self.verdict.lacks(self.first.value, self.basis))
        if self.known_from is not None:
            said.append(
                "The period ends before the first transfer that is known, of "
                f"{self.known_from:%Y-%m-%d %H:%M} UTC."
            )
        if self.ends is not None and self.as_of >= self.ends:
            said.append(
                f"The period ends at {self.ends:%Y-%m-%d %H:%M} UTC, and its transfers are known "
                f"until {self.end:%Y-%m-%d %H:%M} UTC only: sync the store."
            )
        elif self.ends is not None:
            said.append(f"The period is not over: it ends at {self.ends:%Y-%m-%d %H:%M} UTC.")
        return " ".join(filter(None, said))

    @property
    def payments_line(self) -> str:
        """How many payments differ from their journal, of whatever period; nothing for none."""
        return "" if self.payments is None else self.payments.headline

    @property
    def payments_differ(self) -> bool:
        return self.payments is not None and bool(self.payments.differences)

    @property
    def is_alarming(self) -> bool:
        """Whether somebody must look: a balance does not match or is not proved, a row breaks a
        rule, a closed period has moved, something at the bank stays unexplained, or a payment is
        not as its card showed it and nobody accepted that."""
        rows = self.verdict.is_alarming or len(self.violations) > 0
        return rows or bool(self.moved) or self.bank_breaks or self.payments_differ

    @property
    def bank_breaks(self) -> bool:
        return self.bank is not None and not self.bank.ok

    @property
    def proves_nothing(self) -> bool:
        return self.verdict.state == "nothing_to_compare"

    @property
    def all_rows(self) -> str:
        """Where all rows of a table are that the page cuts."""
        if any(path.suffix == ".csv" for path in self.files):
            return "the CSV files beside this page hold them all"
        return f"fundlab report {self.period} --format csv writes them all".replace("  ", " ")

    @property
    def needs_a_person(self) -> list[tuple[str, str]]:
        """What somebody must look at, and where the page has it."""
        items, days = self.open_items, pd.Timedelta(days=3)
        known, at = self.known_until or self.as_of, "now"
        if known < self.as_of:
            at = f"at {known:%Y-%m-%d %H:%M} UTC, the last time known,"
        old, age_now = items["age"] > days, known - items["created_at"]
        since_then = age_now - items["age"] > pd.Timedelta(minutes=1)  # else it is the same moment
        waiting = since_then & items["cleared_at"].isna() & (age_now > days)
        counted = (
            (len(self.breaks), "balance", "that does not match", "reconciliation"),
            (len(self.violations), "transfer", "that breaks a rule", "checks"),
            (len(self.pairs), "internal transfer", "whose halves do not match", "checks"),
            (int(old.sum()), "open item", f"older than 3 days at {self.aged_at}", "open"),
            (int(waiting.sum()), "transfer", f"pending {at} for more than 3 days", "open"),
            (len(self.anomalies), "transfer", "worth a look", "checks"),
            (len(self.notable), "event", "of note", "events"),
        )  # fmt: skip
        said = [(line, "reconciliation") for line in self.verdict.shortfalls]
        said += [(line, "restatements") for line in self.moved]
        said += [(self.payments_line, "withdrawals")] * self.payments_differ
        if self.bank is not None and self.bank_breaks:
            said.append((f"Bank: {self.bank.verdict}", "bank"))
        said += [(f"{number_of(n, what)} {which}", place) for n, what, which, place in counted if n]
        return said

    @property
    def places(self) -> list[str]:
        """Where it was written: each file, the many tables as one line."""
        tables = [path for path in self.files if path.suffix == ".csv"]
        places = [str(path) for path in self.files if path not in tables]
        if tables:
            stem = tables[-1].name.partition(".")[0]
            places.append(f"{len(tables)} tables in {tables[-1].with_name(stem)}.*.csv")
        return places

    @property
    def text(self) -> str:
        """The verdict in words and where it was written, as the command line prints it."""
        words = [
            self.verdict.text, self.remark, broken_rules(len(self.violations)), self.payments_line
        ]  # fmt: skip
        bank = [] if self.bank is None else [f"Bank, {self.bank.title}: {self.bank.verdict}"]
        lines = [" ".join(filter(None, words)), *self.moved, *bank, *self.places]
        return "\n".join(map(printable, lines))

    def to_json(self) -> dict[str, Any]:
        return {
            "period": self.period or None,
            "basis": self.basis,
            "over": self.ends is None,
            "as_of": self.as_of.isoformat(),
            "reconciled": self.verdict.state == "proved",
            "compared": self.verdict.balances,
            **self.verdict.to_json(),
            "verdict": self.verdict.headline,
            "detail": self.verdict.detail,
            "before": self.before or None,
            "figures": [
                {
                    "label": one.label,
                    "value": one.value,
                    "before": one.before or None,
                    "change": one.change or None,
                }
                for one in self.key_figures
            ],
            "open_items": len(self.open_items),
            "violations": len(self.violations),
            "moved": list(self.moved),
            "bank": None if self.bank is None else self.bank.to_json(),
            **({} if self.payments is None else self.payments.to_json()),
            "files": [str(path) for path in self.files],
        }

    def card(self) -> Card:
        """The verdict, the key figures and the files at a glance."""
        return Card(
            self.title,
            tuple(Row(f.label, f.value, detail=f.note, money=True) for f in self.key_figures),
            warnings=(
                *filter(None, [self.remark, self.payments_line]),
                *self.moved,
                *([f"Bank: {self.bank.verdict}"] if self.bank and self.bank_breaks else []),
            ),
            notes=tuple(self.places),
            headline=self.verdict.headline,
            detail=self.verdict.detail,
            tone=self.tone,
        )


def span_text(first: pd.Timestamp, end: pd.Timestamp, tz: str) -> str:
    """``2026-10-01 00:00 to 2026-11-01 00:00 UTC``."""
    begins, ends = (f"{at.tz_convert(tz):%Y-%m-%d %H:%M}" for at in (first, end))
    return f"{begins} to {ends} {tz}"


def broken_rules(violations: int) -> str:
    """``2 row checks are violated.``, or nothing."""
    if not violations:
        return ""
    return f"{violations:,} row {'check is' if violations == 1 else 'checks are'} violated."


def versions(components: Iterable[str] = _COMPONENTS) -> dict[str, str]:
    """The installed versions of what computes and draws the report, for ``sources``."""
    found: dict[str, str] = {}
    for name in components:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def decimals(amount: Decimal) -> int:
    """How many decimals ``amount`` needs."""
    return len(f"{amount:f}".partition(".")[2].rstrip("0"))
