"""The words of the judgement, of balances made by hand: one of each kind, one, two and none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from test_observation_bounds import account, seen

from fundlab.evidence import verdict
from fundlab.evidence.observations import Account, Accounts
from fundlab.evidence.verdict import Judgement, count_breaks, judge_accounts

MINUTE = 60 * 10**9
EQUAL = "to the last of 18 decimals, as observed until 1970-01-01 00:{:02} UTC."


def at(minute: int, reported: str, moved: str, seq: int = 1) -> Any:
    return seen(reported, moved, seq, minute * MINUTE)


def agrees(name: str = "USD", **more: Any) -> Account:
    return account(at(1, "5", "5"), asset=name, now="5", **more)


def differs(name: str = "BTC", **more: Any) -> Account:
    return account(at(1, "5", "5"), at(2, "7", "5"), asset=name, now="5", **more)


def stale(name: str = "EUR") -> Account:
    return account(at(3, "5", "5"), asset=name, now="6", newest=2)


def lost(name: str = "GBP", status: int = 404) -> Account:
    return account(at(4, "5", "5"), asset=name, now="5", answered=1, unanswered=status)


def refused(name: str = "CHF", status: int = 403) -> Account:
    return account(asset=name, now="5", unanswered=status)


def unasked(name: str = "JPY") -> Account:
    return account(asset=name, now="5")


def judged(
    *every: Account, begins: int | None = None, transfers: int = 9, **more: Any
) -> Judgement:
    return judge_accounts(Accounts(every, begins, transfers, **more))


@pytest.mark.parametrize(
    ("every", "transfers", "state", "headline", "detail"),
    [
        ([agrees()], 1, "proved", "Reconciled: 0 breaks",
         "The one balance rebuilt from 1 transfer equals what the service reports, " +
         EQUAL.format(1)),
        ([agrees(), agrees("BTC")], 2000, "proved", "Reconciled: 0 breaks",
         "All 2 balances rebuilt from 2,000 transfers equal what the service reports, " +
         EQUAL.format(1)),
        ([], 0, "nothing_to_compare", "Nothing to compare",
         "There are no transfers and no balances yet: 'fundlab sync' fetches them."),
        ([unasked()], 1, "nothing_to_compare", "Nothing to compare",
         "No balance was ever fetched, so nothing proves the 1 transfer: 'fundlab sync balances' "
         "fetches what the service reports."),
        ([differs()], 9, "breaks", "Not reconciled: 1 break",
         "The one balance differs from what the service reports; the differences, regardless of "
         "sign, add up to 2.00 BTC. First seen at 1970-01-01 00:02:00 UTC."),
        ([differs(), differs("ETH"), agrees()], 9, "breaks", "Not reconciled: 2 breaks",
         "2 of 3 balances differ from what the service reports; the differences, regardless of "
         "sign, add up to 2.00 BTC, 2.00 ETH. First seen at 1970-01-01 00:02:00 UTC."),
        ([account(at(1, "3", "5"), asset="A", now="5"), agrees()], 9, "breaks",
         "Not reconciled: 1 break",
         "1 of 2 balances differs from what the service reports; the differences, regardless of "
         "sign, add up to 2.00 A. First seen at 1970-01-01 00:01:00 UTC."),
        ([account(due="5", asset="A", now="5"), agrees()], 9, "breaks", "Not reconciled: 1 break",
         "1 of 2 balances differs from what the service reports; the differences, regardless of "
         "sign, add up to 5.00 A. Since when is not known: no earlier observation agreed."),
        ([agrees(), stale()], 9, "partly_proved",
         "Not all is proved: 0 breaks, but 1 of 2 balances is not proved against the newest "
         "transfers",
         "1 of 2 balances rebuilt from 9 transfers equals what the service reports, " +
         EQUAL.format(3) + " 1 balance is proved only until 1970-01-01 00:03 UTC: 'fundlab sync "
         "balances' fetches the proof."),
        ([stale()], 9, "partly_proved",
         "Not all is proved: 0 breaks, but 1 of 1 balance is not proved against the newest "
         "transfers",
         "1 balance is proved only until 1970-01-01 00:03 UTC: 'fundlab sync balances' fetches the "
         "proof."),
        ([agrees(), agrees("BTC"), stale(), stale("ETH")], 9, "partly_proved",
         "Not all is proved: 0 breaks, but 2 of 4 balances are not proved against the newest "
         "transfers",
         "2 of 4 balances rebuilt from 9 transfers equal what the service reports, " +
         EQUAL.format(3) + " 2 balances are proved only until 1970-01-01 00:03 UTC: 'fundlab sync "
         "balances' fetches the proof."),
        ([agrees(), lost()], 9, "partly_proved",
         "Not all is proved: 0 breaks, but 1 of 2 balances is not proved against the newest "
         "transfers",
         "1 of 2 balances rebuilt from 9 transfers equals what the service reports, " +
         EQUAL.format(4) + " 1 balance is no longer reported by the service, and proved only until "
         "1970-01-01 00:04 UTC: GBP of p. Ask its operator why; if a profile is yours no more, "
         "'fundlab accept-refused --of ID' records that."),
        ([agrees(), refused(), refused("X", 404)], 9, "partly_proved",
         "Not all is proved: 0 breaks, but 2 of 3 balances are not proved against the newest "
         "transfers",
         "1 of 3 balances rebuilt from 9 transfers equals what the service reports, " +
         EQUAL.format(1) + " The service does not show 2 balances: CHF of p, X of p. Ask its "
         "operator for the right to read them; if a profile is yours no more, 'fundlab "
         "accept-refused --of ID' records that."),
        ([agrees(), unasked(), refused("X", 200)], 9, "partly_proved",
         "Not all is proved: 0 breaks, but 2 of 3 balances are not proved against the newest "
         "transfers",
         "1 of 3 balances rebuilt from 9 transfers equals what the service reports, " +
         EQUAL.format(1) + " 2 balances that transfers made were never observed, so nothing proves "
         "them: 'fundlab sync balances' fetches what the service reports."),
        ([account(at(1, "6", "5"), at(2, "5", "5"), asset="A", now="5")], 9, "proved",
         "Reconciled: 0 breaks",
         "The one balance rebuilt from 9 transfers equals what the service reports, " +
         EQUAL.format(2) + " 1 earlier observation differed, and later ones agree "
         "(store.assertions())."),
    ],
)  # fmt: skip
def test_what_is_proved_of_the_whole(
    every: Any, transfers: int, state: str, headline: str, detail: str
) -> None:
    found = judged(*every, transfers=transfers)
    assert (found.state, found.headline, found.detail) == (state, headline, detail)
    assert found.breaks == len(found.broken) == count_breaks(Accounts((*every,), None, transfers))
    assert found.is_alarming is (state in ("breaks", "partly_proved"))
    tones = {"proved": "good", "breaks": "bad"}
    assert found.tone == tones.get(state, "warn")
    assert found.text == str(found) == repr(found) == f"{headline}. {detail}"
    assert found.opening.empty


def test_no_opening_is_taken_over_of_a_balance_that_was_never_observed() -> None:
    found = judged(agrees(opening="0"), unasked("EUR"), refused("GBP"), begins=5 * MINUTE)
    assert len(found.table) == 3
    assert "of its 3 balances the opening of 1 is taken over from the service" in found.detail
    assert found.opening[["asset"]].values.tolist() == [["USD"]]


SINCE = 5 * MINUTE
TAKEN = "The store begins at 1970-01-01 00:05 UTC: "


@pytest.mark.parametrize(
    ("every", "headline", "detail"),
    [
        ([agrees(opening="0")], "Openings taken over from the service; no movement is proved yet",
         "the opening of its one balance is taken over from the service as observed on 1970-01-01, "
         "not proved. No later observation proves a movement yet: sync again."),
        ([account(at(1, "5", "5"), at(2, "6", "6"), now="6"),
          account(at(2880, "1", "1"), asset="X", now="1")],
         "Movements reconciled: 0 breaks; openings taken over from the service",
         "the openings of its 2 balances are taken over from the service as observed between "
         "1970-01-01 and 1970-01-03, not proved. The 1 later observation equals what the transfers "
         "make of it, to the last of 18 decimals, until 1970-01-03 00:00 UTC."),
        ([account(at(1, "5", "5"), at(2, "6", "6"), at(3, "7", "7"), now="7")],
         "Movements reconciled: 0 breaks; openings taken over from the service",
         "the opening of its one balance is taken over from the service as observed on 1970-01-01, "
         "not proved. The 2 later observations equal what the transfers make of it, to the last of "
         "18 decimals, until 1970-01-01 00:03 UTC."),
    ],
)  # fmt: skip
def test_what_is_proved_of_a_store_that_begins_late(every: Any, headline: str, detail: str) -> None:
    found = judged(*every, begins=SINCE)
    assert (found.state, found.headline) == ("moves_proved", headline)
    end = " 'fundlab sync --full' fetches the earlier transfers, too."
    assert found.detail == TAKEN + detail + end
    assert found.since == pd.Timestamp(SINCE, unit="ns", tz="UTC")
    assert len(found.opening) == len(every)
    assert set(found.table["status"]) == {"opening_unknown"}


def test_a_store_that_begins_late_and_breaks_or_is_empty() -> None:
    broken = judged(
        account(at(1, "5", "4"), at(2, "7", "5"), opening="1", now="5"), begins=SINCE + 1
    )
    assert broken.state == "breaks"
    assert broken.detail.endswith(
        " The store begins at 1970-01-01T00:05:00.000000001+00:00: a transfer made before and "
        "pending then shows as a break, too; 'fundlab sync --full' fetches it."
    )
    none = judged(begins=SINCE, transfers=0)
    assert none.detail == (
        TAKEN.removesuffix(": ") + " and has no transfers from then on: 'fundlab sync' fetches new "
        "ones, 'fundlab sync --full' those made before, too."
    )
    some = judged(unasked(), begins=SINCE)
    assert some.detail.startswith("No balance was ever fetched, so nothing proves the 9 transfers")


DAY = 24 * 60 * MINUTE


def test_what_a_store_that_begins_late_lacks() -> None:
    """It begins on the second day; one balance was first seen at noon, one on the third day, with
    an opening, and one on the fourth day, with none."""
    found = judged(
        account(at(36 * 60, "5", "5"), asset="A", now="5"),
        account(at(48 * 60, "6", "5"), asset="B", now="5", opening="1"),
        account(at(72 * 60, "5", "5"), asset="C", now="5"),
        begins=DAY,
    )
    end = "; 'fundlab sync --full' fetches it."
    before = (
        "The store begins at 1970-01-02 00:00 UTC: what moved from {} until then is not in it, and "
        "the opening is of that time" + end
    )
    assert found.lacks(0, "settled") == before.format("1970-01-01 00:00 UTC")
    assert found.lacks(DAY - 1, "created") == before.format("1970-01-01T23:59:59.999999999+00:00")
    assert found.lacks(DAY, "created") == found.lacks(2 * DAY, "settled") == ""
    late = (
        "The store begins at 1970-01-02 00:00 UTC, and its openings were observed until "
        "1970-01-03 00:00 UTC: what was made before the one and settled before the other is in "
        "the opening, not among what moved" + end
    )
    assert found.lacks(DAY, "settled") == found.lacks(2 * DAY - 1, "settled") == late
    assert judged(agrees(), begins=None).lacks(0, "settled") == ""
    for first in (0, DAY - 1, DAY, 2 * DAY - 1, 2 * DAY):
        for basis in ("settled", "created"):
            assert found.lacks_moves(first, basis) == found.lacks(first, basis)


@pytest.mark.parametrize("ours", [True, False])
def test_what_nobody_saw_of_a_store_that_begins_late_is_not_known(ours: bool) -> None:
    """Nor where the profile is no longer ours: its transfers count."""
    lost = unasked()
    seen = account(at(DAY // MINUTE, "5", "5"), now="5")
    found = judged(seen, lost, begins=DAY)
    if not ours:
        found = judged(seen, begins=DAY, no_longer_ours=(lost,))
    said = (
        f"What there was of {lost.asset} of {lost.profile_id} when the store begins, at 1970-01-02 "
        "00:00 UTC, was never observed, and counts as nothing; 'fundlab sync --full' fetches it."
    )
    assert found.lacks(2 * DAY, "settled") == found.lacks(DAY, "created") == said
    moved = judged(seen, begins=DAY).lacks(0, "created")
    assert found.lacks(0, "created") == f"{said} {moved}"
    assert found.lacks_moves(0, "created") == moved
    assert found.lacks_moves(DAY, "created") == found.lacks_moves(2 * DAY, "settled") == ""
    assert judged(seen, lost).lacks(0, "settled") == ""


@pytest.mark.parametrize(
    ("one", "late", "line"),  # rebuilt, reported, difference, status, proof, proved until
    [
        (agrees(), False, ("5", "5", "0", "match", "now", MINUTE)),
        (agrees(), True, ("5", "5", "0", "opening_unknown", "now", MINUTE)),
        (differs(), False, ("5", "7", "2", "break", "until", MINUTE)),
        (account(at(2, "7", "5"), now="5"), False, ("5", "7", "2", "break", None, None)),
        (account(at(2, "7", "5"), now="5", opening="1"), True,
         ("6", "7", "1", "break", None, None)),
        (account(at(2, "7", "0"), now=None), False,
         (None, "7", "7", "only_reported", "now", None)),
        (account(at(2, "7", "0"), now=None), True, ("0", "7", "7", "break", None, None)),
        (account(due="4", now="4"), False,
         ("4", None, "-4", "only_rebuilt", "never_reported", None)),
        (account(due="4", now=None), False, (None, None, "-4", "only_rebuilt", "never_reported",
                                             None)),
        (unasked(), False, ("5", None, None, "unobserved", "never_reported", None)),
    ],
)  # fmt: skip
def test_the_line_of_a_balance(one: Account, late: bool, line: Any) -> None:
    found = verdict._line(one, late=late)
    amounts = tuple(None if text is None else Decimal(text) for text in line[:3])
    assert found == (one.profile_id, one.asset, *amounts, *line[3:])


def test_since_when_each_differs() -> None:
    every = [
        account(at(1, "9", "5"), at(2, "5", "5"), at(3, "6", "5"), at(4, "7", "5"), asset="A",
                now="5"),
        account(at(2, "6", "5"), at(5, "6", "5"), asset="B", now="5"), agrees("C"),
        account(at(1, "9", "5"), at(6, "5", "5"), asset="D", now="5"),
    ]  # fmt: skip
    found = judged(*every, accepted=("somebody accepted it.",), shortfalls=("short.",))
    since = found.table.set_index("asset")["since"]
    assert [None if pd.isna(one) else one.value // MINUTE for one in since] == [3, 2, None, None]
    assert found.breaks == 2
    assert found.shortfalls == ("short.",)
    assert found.detail.endswith(
        " 1 earlier observation differed, and later ones agree (store.assertions()). short. "
        "somebody accepted it."
    )
    shown = found.to_json()
    assert (shown["breaks"], shown["balances"], shown["since"]) == (2, 4, None)
    assert shown["shortfalls"] == ["short."]
    assert "explore(transfers, balances)" in found._repr_html_()
    assert "explore(transfers, balances)" not in judged(agrees())._repr_html_()


def test_beside_a_period_without_transfers_nothing_is_to_be_proud_of() -> None:
    sound, broken = judged(agrees()), judged(differs())
    for one, count, same in ((sound, 1, True), (broken, 0, True), (sound, 0, False)):
        found = one.of_period("2026-01", count)
        assert (found is one) is same
    assert (found.state, found.headline) == ("nothing_to_compare", "No transfers in 2026-01")
    assert found.detail == f"Of everything known: {sound.text}"
    assert sound.of_period("", 0).headline == "No transfers at all"
    assert count_breaks(Accounts((account(due="4", now="4"),), None, 1)) == 0  # nobody asked


def test_tables_that_end_before_now_prove_nothing() -> None:
    table = judged(agrees()).table.assign(status="closing_unknown")
    seen_of = judged(differs(), agrees("C")).observations
    found = verdict.pronounce(table.drop(columns="since"), seen_of, begins=None, transfers=1)
    assert (found.state, found.balances, found.breaks, found.detail) == (
        "nothing_to_compare", 0, 0, verdict._CUT,
    )  # fmt: skip
    unseen = table.drop(columns="since").assign(reported=None)
    found = verdict.pronounce(unseen, seen_of, begins=None, transfers=1)
    assert (found.state, found.balances, found.breaks) == ("nothing_to_compare", 0, 0)
    bare = judged(agrees()).table.drop(columns=["since", "proof"])
    plain = verdict.pronounce(
        bare, judged(agrees()).observations.iloc[:0], begins=None, transfers=1
    )
    assert plain.detail.endswith("to the last of 18 decimals.")


@pytest.mark.parametrize(
    ("every", "kinds"),
    [
        ([agrees()], []), ([differs()], []), ([stale()], ["is proved only until"]),
        ([lost()], ["no longer reported by"]), ([lost(status=403)], ["no longer reported by"]),
        ([lost(status=200)], []),
        ([account(at(1, "7", "5"), now="9", newest=2)], []),  # which breaks
        ([refused()], ["Ask its operator for the right to read it;"]), ([unasked()], []),
        ([unasked(), agrees()], ["balance that transfers made was never observed"]),
        ([refused(status=200), agrees()], ["never observed"]),
    ],
)  # fmt: skip
def test_what_falls_short_of_a_proof(every: Any, kinds: list[str]) -> None:
    lines = verdict.shortfalls_of(Accounts((*every,), None, 1, ("before",)))
    assert lines[0] == "before"
    assert len(lines) == 1 + len(kinds)
    for line, kind in zip(lines[1:], kinds, strict=True):
        assert kind in line


def test_which_of_several_is_named_is_the_earliest() -> None:
    every = (stale(), account(at(2, "5", "5"), asset="X", now="6", newest=2), lost(),
             account(at(1, "5", "5"), asset="Y", now="5", answered=1, unanswered=403))  # fmt: skip
    first, second = verdict.shortfalls_of(Accounts(every, None, 1))
    assert "proved only until 1970-01-01 00:02 UTC" in first
    assert "2 balances are no longer reported by the service, and proved only until" in second
    assert "1970-01-01 00:01 UTC: GBP of p, Y of p" in second


def test_what_a_judgement_rests_on_is_rebuilt_with_its_opening() -> None:
    for begins in (None, 5):
        found = judged(account(at(1, "9", "5"), opening="4", now="5"), begins=begins)
        assert list(found.observations["rebuilt"]) == [Decimal(9)]
        assert list(found.observations["difference"]) == [0]
        assert list(found.opening["balance"]) == ([Decimal(4)] if begins else [])
