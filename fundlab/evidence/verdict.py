"""The one judgement of a store: do the balances the service reports follow from the transfers?

``Store.verify``, the report, the demo and every exit status say what stands here, in these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.errors import listed, number_of
from fundlab.base.exact import EXACT
from fundlab.base.values import minute_text, money_text
from fundlab.evidence.observations import Account, Accounts, asserted_balances
from fundlab.tables.frames import to_frame
from fundlab.tables.schema import INSTANT_TYPE

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.tables.transfers import Basis

State = Literal["proved", "moves_proved", "partly_proved", "breaks", "nothing_to_compare"]
_TONES: Final[Mapping[State, Literal["good", "bad", "warn"]]] = {
    "proved": "good",
    "moves_proved": "warn",
    "partly_proved": "warn",
    "breaks": "bad",
    "nothing_to_compare": "warn",
}

KEYS: Final = ["profile_id", "asset"]
_PAIR: Final = attrgetter("profile_id", "asset")
SOUND: Final = ("match", "opening_unknown", "closing_unknown", "unobserved")
"""The statuses of a balance that does not break; ``unobserved``: transfers made it, and the service
was not asked since, or does not show it."""

_FETCHES: Final = "'fundlab sync --full' fetches it."
_TEXT: Final = pa.string()
_TABLE: Final = pa.schema(
    [(name, _TEXT) for name in KEYS]
    + [(name, AMOUNT_TYPE) for name in ("rebuilt", "reported", "difference")]
    + [("status", _TEXT), ("proof", _TEXT), ("proved_until", INSTANT_TYPE)]
)
OPENING: Final = pa.schema([*((name, _TEXT) for name in KEYS), ("balance", AMOUNT_TYPE)])


@dataclass(frozen=True, repr=False)
class Judgement:
    """What is proved, and what is not.

    ``state`` is ``proved`` (every balance, from the first transfer to the newest), ``moves_proved``
    (the store begins at ``since``; the openings are the service's, every later change is proved),
    ``partly_proved`` (nothing breaks, but ``shortfalls`` say what is not proved, and what helps),
    ``breaks`` or ``nothing_to_compare``; ``balances`` and ``breaks`` are numbers of balances;
    ``text`` says it all. ``since`` is ``None`` where the store has every transfer.

    ``table`` has ``profile_id``, ``asset``, ``rebuilt``, ``reported``, ``difference``, ``status``
    as ``reconcile.compare`` (and ``unobserved``), of the last observation of each balance and the
    transfers it belongs to. ``proof`` says how far that goes: ``now`` (it belongs to the newest
    transfers), ``until`` an earlier time, ``no_longer_reported`` or ``never_reported`` by the
    service; missing where it never agreed. ``proved_until`` is when it was last seen to agree, and
    ``since`` the first observation that differed after that.
    ``opening`` (``profile_id``, ``asset``, ``balance``) is what was taken over from the service,
    empty where nothing was. ``observations`` are those of ``Store.assertions``, ``rebuilt`` with
    the opening. ``unopened`` are balances of a store that begins late which were never observed:
    what there was of them before is not known.
    """

    state: State
    since: pd.Timestamp | None
    balances: int
    breaks: int
    headline: str
    detail: str
    table: pd.DataFrame
    opening: pd.DataFrame
    observations: pd.DataFrame
    shortfalls: tuple[str, ...] = ()
    unopened: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.headline}. {self.detail}"

    @property
    def tone(self) -> Literal["good", "bad", "warn"]:
        """How it is shown: only what is proved from the first transfer on is good."""
        return _TONES[self.state]

    @property
    def is_alarming(self) -> bool:
        """Whether somebody must look: something breaks, or falls short of a proof. Every exit
        status, close and finding follows this."""
        return bool(self.breaks or self.shortfalls)

    def lacks(self, first: int, basis: Basis) -> str:
        """What is missing of the balances from ``first`` (ns) on, as sentences; nothing where
        nothing is: what nobody saw of them when the store begins, and :meth:`lacks_moves`."""
        said = self.lacks_moves(first, basis)
        if self.since is None or not self.unopened:
            return said
        unseen = (
            f"What there was of {listed(self.unopened)} when the store begins, at "
            f"{_exactly(self.since)}, was never observed, and counts as nothing; {_FETCHES}"
        )
        return f"{unseen} {said}".strip()

    def lacks_moves(self, first: int, basis: Basis) -> str:
        """What is missing of that which moved from ``first`` (ns) on, by when it was created or
        ``settled``, as a sentence; nothing where nothing is.

        A store that begins late has all that was created since. What was made before and settled
        then is in none of its transfers: only in the openings, as they were first observed.
        """
        import pandas as pd

        if self.since is None:
            return ""
        begins, wanted = _exactly(self.since), pd.Timestamp(first, unit="ns", tz="UTC")
        if wanted < self.since:
            return (
                f"The store begins at {begins}: what moved from {_exactly(wanted)} until then is "
                f"not in it, and the opening is of that time; {_FETCHES}"
            )
        # A balance that was first seen later, with no opening, was not there before.
        seen = self.observations.groupby(KEYS)["observed_at"].min()
        taken_over = self.opening.loc[self.opening["balance"] != 0, KEYS]
        opened = max([seen.min(), *seen[seen.index.isin([*map(tuple, taken_over.to_numpy())])]])
        if basis == "settled" and wanted < opened:
            return (
                f"The store begins at {begins}, and its openings were observed until "
                f"{_exactly(opened)}: what was made before the one and settled before the other is "
                f"in the opening, not among what moved; {_FETCHES}"
            )
        return ""

    @property
    def broken(self) -> pd.DataFrame:
        """The rows of ``table`` that break."""
        return self.table[~self.table["status"].isin(SOUND)]

    @property
    def gaps(self) -> str:
        """``10.00 USD, 0.5 ETH``: what breaks, without regard to sign; nothing for nothing."""
        return gaps(self.broken)

    def of_period(self, period: str, transfers: int) -> Judgement:
        """This judgement beside a period with so many ``transfers``: without any there is nothing
        to be proud of. What is alarming stays so."""
        if transfers or self.is_alarming:
            return self
        where = f"in {period}" if period else "at all"
        return replace(self, state="nothing_to_compare", headline=f"No transfers {where}",
                       detail=f"Of everything known: {self.text}")  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        since = None if self.since is None else self.since.isoformat()
        return {"state": self.state, "since": since, "balances": self.balances,
                "breaks": self.breaks, "shortfalls": list(self.shortfalls),
                "text": self.text}  # fmt: skip

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from fundlab.display import Card, show  # which loads pandas

        broken = (show(self.broken),) if self.breaks else ()
        follows = "what may have made each difference: fl.reconcile.explore(transfers, balances)"
        return Card(
            "Balances", tables=broken, headline=self.headline, detail=self.detail, tone=self.tone,
            notes=(follows,) if self.breaks else (),
        )._repr_html_()  # fmt: skip


def judge_accounts(accounts: Accounts) -> Judgement:
    """The judgement of a store."""
    late = accounts.begins is not None
    table = exact_table(_TABLE, _lines(accounts))
    # what was taken over stays, also of profiles that are no longer ours: their transfers do
    owned = [*_judged(accounts), *accounts.no_longer_ours]
    taken = [(a.profile_id, a.asset, a.opening) for a in owned if late and a.observations]
    opening = to_frame(exact_table(OPENING, sorted(taken)))
    observations = to_frame(asserted_balances(accounts, opened=True))
    judgement = pronounce(to_frame(table), observations, opening, begins=accounts.begins,
                          transfers=accounts.transfers, accepted=accounts.accepted,
                          shortfalls=shortfalls_of(accounts),
                          left_out=bool(accounts.no_longer_ours))  # fmt: skip
    unopened = [a for a in owned if late and not a.observations]
    return replace(judgement, unopened=_named(unopened))


def count_breaks(accounts: Accounts) -> int:
    """``breaks`` of the judgement, without its frames: pandas takes longer than the count."""
    if nothing_compared(accounts):
        return 0
    return sum(line[5] not in SOUND for line in _lines(accounts))


def shortfalls_of(accounts: Accounts) -> list[str]:
    """``shortfalls`` of the judgement."""
    return [*accounts.shortfalls, *_shortfalls(_judged(accounts))]


def nothing_compared(accounts: Accounts) -> str:
    """What the judgement says where no balance of it was ever observed; else nothing."""
    if any(account.observations for account in _judged(accounts)):
        return ""
    left_out = bool(accounts.no_longer_ours)
    return _nothing(accounts.transfers, _time(accounts.begins), left_out=left_out)


def _judged(accounts: Accounts) -> list[Account]:
    return sorted([*accounts.compared, *accounts.unobserved], key=_PAIR)


def pronounce(
    table: pd.DataFrame,
    observations: pd.DataFrame,
    opening: pd.DataFrame | None = None,
    *,
    begins: int | None,
    transfers: int,
    shortfalls: Sequence[str] = (),
    accepted: Sequence[str] = (),
    left_out: bool = False,
) -> Judgement:
    """The words for ``table``, which has the columns of ``reconcile.compare`` and maybe those of
    the proof, and the ``observations`` it rests on. ``shortfalls`` are sentences: what is not
    proved although nothing breaks; ``accepted``: what somebody accepted; ``left_out``: some
    profiles are, as no longer ours."""
    import pandas as pd

    since = _time(begins)
    # For each balance the first observation after the last one that agreed.
    off = observations[observations["difference"] != 0]
    sound = table["status"].isin(SOUND)
    if len(off):
        agreed = observations[observations["difference"] == 0].groupby(KEYS)["observed_at"].max()
        later = off.merge(agreed.rename("agreed").reset_index(), on=KEYS, how="left")
        later = later[later["agreed"].isna() | (later["observed_at"] > later["agreed"])]
        first = later.groupby(KEYS)["observed_at"].min().rename("since").reset_index()
        table = table.merge(first, on=KEYS, how="left")
        table.loc[sound, "since"] = pd.NaT
    else:
        table = table.assign(
            since=pd.Series(pd.NaT, table.index, observations["observed_at"].dtype)
        )
    broken = table[~sound]
    state: State
    if table["reported"].isna().all():
        table, state, breaks = table.iloc[:0], "nothing_to_compare", 0
        headline, words = "Nothing to compare", [_nothing(transfers, since, left_out=left_out)]
    elif table["status"].eq("closing_unknown").all():
        table, state, breaks = table.iloc[:0], "nothing_to_compare", 0
        headline, words = "Nothing to compare", [_CUT]
    elif len(broken):
        state, breaks = "breaks", len(broken)
        headline = f"Not reconciled: {number_of(breaks, 'break')}"
        words = [_broken(broken, len(table))]
        if since is not None:
            words.append(
                f"The store begins at {_exactly(since)}: a transfer made before and pending then "
                "shows as a break, too; 'fundlab sync --full' fetches it."
            )
    else:
        state, breaks, headline = "proved", 0, "Reconciled: 0 breaks"
        if since is None:
            words = _equal(table, observations, transfers)
        else:
            state = "moves_proved"
            headline, words = _moves(len(table), observations, since)
        if shortfalls:
            state, headline = "partly_proved", "Not all is proved: 0 breaks"
            if count := int((table["proof"] != "now").sum()):
                verb = "is" if count == 1 else "are"
                headline += f", but {count:,} of {number_of(len(table), 'balance')} {verb} not"
                headline += " proved against the newest transfers"
    if state != "nothing_to_compare" and len(off):
        agreeing = ~pd.MultiIndex.from_frame(off[KEYS]).isin(pd.MultiIndex.from_frame(broken[KEYS]))
        if agreeing.any():
            earlier = number_of(int(agreeing.sum()), "earlier observation")
            words.append(f"{earlier} differed, and later ones agree (store.assertions()).")
    words += [*shortfalls, *accepted]
    opening = to_frame(OPENING.empty_table()) if opening is None else opening
    return Judgement(state, since, len(table), breaks, headline, " ".join(words), table, opening,
                     observations, tuple(shortfalls))  # fmt: skip


def _lines(accounts: Accounts) -> list[tuple[Any, ...]]:
    return [_line(one, late=accounts.begins is not None) for one in _judged(accounts)]


def _line(account: Account, *, late: bool) -> tuple[Any, ...]:
    last = account.observations[-1] if account.observations else None
    off, moved = account.difference, account.due if last is None else last.moved
    if last is None and not account.due:
        return (account.profile_id, account.asset, account.now, None, None, "unobserved",
                account.proof, None)  # fmt: skip
    rebuilt = None if account.now is None and not late else EXACT.add(account.opening, moved)
    if last is None:
        status = "only_rebuilt"
    elif not off:
        status = "opening_unknown" if late else "match"
    else:
        status = "only_reported" if rebuilt is None else "break"
    reported = None if last is None else last.reported
    proof: str | None = account.proof
    until = account.proved_until
    if status == "break":
        proof = None if until is None else "until"
    return account.profile_id, account.asset, rebuilt, reported, off, status, proof, until


def _shortfalls(judged: Sequence[Account]) -> list[str]:
    """What is not proved although it does not break, and what helps; a sentence for each kind."""
    sound = [one for one in judged if not one.difference]
    stale = [one for one in sound if one.proof == "until"]
    lost = [one for one in sound if one.proof == "no_longer_reported" and one.observations]
    unshown = [one for one in sound if one.proof != "now" and not one.observations]
    refused = [one for one in unshown if one.unanswered in (403, 404)]
    unasked = [one for one in unshown if one not in refused]
    lines = []
    if stale:
        verb, earliest = _verb(stale, "is", "are"), min(one.proved_until or 0 for one in stale)
        lines.append(
            f"{number_of(len(stale), 'balance')} {verb} proved only until "
            f"{minute_text(earliest)}: 'fundlab sync balances' fetches the proof."
        )
    if lost:
        verb, latest = _verb(lost, "is", "are"), min(one.proved_until or 0 for one in lost)
        lines.append(
            f"{number_of(len(lost), 'balance')} {verb} no longer reported by the service, and "
            f"proved only until {minute_text(latest)}: {_listed(lost)}. Ask its operator why; if a "
            "profile is yours no more, 'fundlab accept-refused --of ID' records that."
        )
    if refused:
        lines.append(
            f"The service does not show {number_of(len(refused), 'balance')}: "
            f"{_listed(refused)}. Ask its operator for the right to read "
            f"{_verb(refused, 'it', 'them')}; if a profile is yours no more, 'fundlab "
            "accept-refused --of ID' records that."
        )
    if unasked and any(one.observations for one in judged):
        verb, those = _verb(unasked, "was", "were"), number_of(len(unasked), "balance")
        lines.append(
            f"{those} that transfers made {verb} never observed, so nothing "
            "proves them: 'fundlab sync balances' fetches what the service reports."
        )
    return lines


def _verb(several: Sequence[Account], singular: str, plural: str) -> str:
    return singular if len(several) == 1 else plural


def _listed(accounts: Sequence[Account]) -> str:
    return listed(_named(accounts))


def _named(accounts: Iterable[Account]) -> tuple[str, ...]:
    return tuple(f"{one.asset} of {one.profile_id}" for one in accounts)


# --------------------------------------------------------------------------------- words


_CUT: Final = (
    "The transfers or balances end at the until= they were read with, and of different moments "
    "they prove nothing: read both without until, or both with the same as_of."
)


def _equal(table: pd.DataFrame, observations: pd.DataFrame, transfers: int) -> list[str]:
    """What is proved now, if anything is."""
    count = len(table) if "proof" not in table else int((table["proof"] == "now").sum())
    if not count:
        return []
    every, equal = f"All {count:,} balances", "equal"
    if count < len(table):
        every, equal = f"{count:,} of {len(table):,} balances", "equal" if count > 1 else "equals"
    elif count == 1:
        every, equal = "The one balance", "equals"
    until = "" if observations.empty else f", as observed until {_last(observations)}"
    return [
        f"{every} rebuilt from {number_of(transfers, 'transfer')} "
        f"{equal} what the service reports, to the last of 18 decimals{until}."
    ]


def _nothing(transfers: int, since: pd.Timestamp | None, *, left_out: bool) -> str:
    if not transfers and left_out:
        return (
            "There are no transfers and no balances but those of profiles that are no longer ours."
        )
    if not transfers and since is not None:
        return (
            f"The store begins at {_exactly(since)} and has no transfers from then on: 'fundlab "
            "sync' fetches new ones, 'fundlab sync --full' those made before, too."
        )
    if not transfers:
        return "There are no transfers and no balances yet: 'fundlab sync' fetches them."
    return (
        f"No balance was ever fetched, so nothing proves the {number_of(transfers, 'transfer')}: "
        "'fundlab sync balances' fetches what the service reports."
    )


def _broken(broken: pd.DataFrame, compared: int) -> str:
    known = broken["since"].dropna()
    when = "Since when is not known: no earlier observation agreed."
    if len(known):
        when = f"First seen at {known.min():%Y-%m-%d %H:%M:%S} UTC."
    differ = (
        f"{len(broken):,} of {compared:,} balances {'differs' if len(broken) == 1 else 'differ'}"
    )
    if compared == 1:
        differ = "The one balance differs"
    return (
        f"{differ} from what the service reports; the differences, regardless of sign, add up to "
        f"{gaps(broken)}. {when}"
    )


def gaps(rows: pd.DataFrame, column: str = "difference") -> str:
    """The sum of ``column`` by asset, without regard to sign."""
    sums = rows[column].abs().groupby(rows["asset"]).sum()
    return ", ".join(f"{money_text(gap)} {asset}" for asset, gap in sums.items())


def _moves(count: int, observations: pd.DataFrame, since: pd.Timestamp) -> tuple[str, list[str]]:
    """The words for ``count`` balances, of which some may never have been observed."""
    first = observations.groupby(KEYS)["observed_at"].min()
    later = len(observations) - len(first)
    begin, end = (f"{day:%Y-%m-%d}" for day in (first.min(), first.max()))
    when = f" on {begin}" if begin == end else f" between {begin} and {end}"
    openings = f"the openings of its {count:,} balances are"
    if count == 1:
        openings = "the opening of its one balance is"
    elif len(first) < count:
        verb = "is" if len(first) == 1 else "are"
        openings = f"of its {count:,} balances the opening of {len(first):,} {verb}"
    words = [
        f"The store begins at {_exactly(since)}: {openings} taken over from the service as "
        f"observed{when}, not proved."
    ]
    if later:
        headline = "Movements reconciled: 0 breaks; openings taken over from the service"
        noun = "observation equals" if later == 1 else "observations equal"
        words.append(
            f"The {later:,} later {noun} what the transfers make of it, to the last of 18 "
            f"decimals, until {_last(observations)}."
        )
    else:
        headline = "Openings taken over from the service; no movement is proved yet"
        words.append("No later observation proves a movement yet: sync again.")
    words.append("'fundlab sync --full' fetches the earlier transfers, too.")
    return headline, words


def _time(ns: int | None) -> pd.Timestamp | None:
    if ns is None:
        return None
    import pandas as pd

    return pd.Timestamp(ns, unit="ns", tz="UTC")


def _last(observations: pd.DataFrame) -> str:
    return _minute(observations["observed_at"].max())


def _exactly(moment: pd.Timestamp) -> str:
    return _minute(moment) if moment == moment.floor("min") else moment.isoformat()


def _minute(moment: pd.Timestamp) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
