"""What may be accepted of what is missing, set aside or refused, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from test_observation_bounds import account, seen

from fundlab.base.errors import InvalidRequest
from fundlab.evidence import acceptance
from fundlab.evidence.observations import Accounts

WHO = {"by": "Ana", "reason": "why"}
AT = "1970-01-01T00:00:00.000000005Z"


class Recorded:
    """A store that keeps what is recorded, by whoever holds its lock."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    @contextmanager
    def lock(self) -> Iterator[Callable[[], None]]:
        yield self.held

    def held(self) -> None:
        pass

    def records(self) -> list[Any]:
        return []

    def snapshot(self, table: str) -> str:
        return table

    def record(self, kind: str, said: dict[str, Any], check_held: Any) -> None:
        assert check_held == self.held
        self.kept.append((kind, said))


def aside(key: str, id_: str | None, state: str = "open") -> Any:
    return SimpleNamespace(table="transfers", key=key, id=id_, found_at=5, state=state)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (None, ["k1", "k2"]), ("k1", ["k1"]), ("t2", ["k2"]), (["T2", "k1"], ["k1", "k2"]),
        ([], []),
    ],
)  # fmt: skip
def test_rows_set_aside_are_accepted_by_key_or_id(
    given: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [aside("k1", None), aside("k2", "t2"), aside("k3", "t3", "accepted")]
    monkeypatch.setattr(acceptance, "set_aside_rows", lambda records: rows)
    store: Any = Recorded()
    assert acceptance.accept_unreadable(store, given, **WHO) == keys
    said = {"rows": [], "invalid": [["transfers", key, AT] for key in keys], **WHO}
    assert store.kept == ([("accept", said)] if keys else [])
    for wrong in ("k3", ["k1", "t3"], ["x"]):
        with pytest.raises(InvalidRequest, match=r"keys .* are not rows set aside; 'fundlab qua"):
            acceptance.accept_unreadable(store, wrong, **WHO)
    for lacking in ("by", "reason"):
        with pytest.raises(InvalidRequest, match=lacking):
            acceptance.accept_unreadable(store, None, **WHO | {lacking: " "})


@pytest.mark.parametrize(
    ("given", "keys"), [("ab", ["ab"]), ("AB", ["AB"]), (["ab", "AB"], ["ab", "AB"]), ("X", ["x"])]
)
def test_a_name_is_that_of_the_row_that_is_written_so(
    given: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [aside(key, None) for key in ("ab", "AB", "x")]
    monkeypatch.setattr(acceptance, "set_aside_rows", lambda records: rows)
    store: Any = Recorded()
    assert acceptance.accept_unreadable(store, given, **WHO) == keys
    with pytest.raises(InvalidRequest, match="'Ab' may be AB, ab: write it as it is"):
        acceptance.accept_unreadable(store, ["x", "Ab"], **WHO)


def gone(id_: str, state: str, answer: str | None = None, counts: bool | None = None) -> Any:
    return SimpleNamespace(
        table="transfers", id=id_, state=state, answer=answer, counts=counts, gone_at=5
    )


ROWS = [
    gone("a", "gone"), gone("b", "gone"), gone("c", "refused"),
    gone("d", "accepted", "gone", True), gone("e", "accepted", "gone", False),
    gone("f", "accepted", "refused", False), gone("g", "missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "ids", "counts", "accepted"),
    [
        ("gone", None, True, "ab"), ("gone", ["B"], True, "b"), ("gone", ["b", "e"], True, "be"),
        ("gone", "d", False, "d"), ("refused", None, True, "c"), ("refused", ["f"], True, "f"),
    ],
)  # fmt: skip
def test_rows_that_are_gone_or_refused_are_accepted_or_the_other_way(
    state: Any, ids: Any, counts: bool, accepted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "gone_rows", lambda records: ROWS)
    monkeypatch.setattr(acceptance, "gone_table", lambda rows: [row.id for row in rows])
    monkeypatch.setattr(acceptance, "to_frame", lambda found: found)
    store: Any = Recorded()
    said: dict[str, Any] = WHO | {"counts": counts}
    assert acceptance.accept_missing(store, state, ids, said) == [*accepted]
    rows = [["transfers", id_, AT] for id_ in accepted]
    assert store.kept == [("accept", WHO | {"counts": counts, "rows": rows})]
    what = "refused" if state == "refused" else "rows that the service lists no more"
    for wrong in ("g", "x", "d" if counts else "e"):
        with pytest.raises(InvalidRequest, match=f"are not {what}; .* in the state '{state}'"):
            acceptance.accept_missing(store, state, wrong, WHO | {"counts": counts})
    with pytest.raises(InvalidRequest, match="reason"):
        acceptance.accept_missing(store, state, None, said | {"reason": ""})
    monkeypatch.setattr(acceptance, "gone_rows", lambda records: [])
    assert acceptance.accept_missing(store, state, None, dict(said)) == []
    assert len(store.kept) == 1


def test_a_profile_is_accepted_with_its_refused_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_current(snapshot: str, columns: list[str], *, where: Any) -> pa.Table:
        assert (snapshot, columns) == ("transfers", ["id"])
        return pa.table({"id": {"p": ["c", "x"], "q": ["x"]}[where["profile_id"][0]]})

    for name, stand_in in (
        ("gone_rows", lambda records: [*ROWS, gone("h", "refused")]),
        ("read_current", read_current),
        ("gone_table", lambda rows: [row.id for row in rows]), ("to_frame", lambda found: found),
        ("steadily", lambda look: look()),
    ):  # fmt: skip
        monkeypatch.setattr(acceptance, name, stand_in)
    asked: list[Any] = []
    monkeypatch.setattr(acceptance, "check_refused", lambda *given: asked.append(given))
    for profile, found in (("p", ["c"]), ("q", [])):
        store: Any = Recorded()
        said: dict[str, Any] = WHO | {"counts": True}
        known = Accounts((account(profile_id=profile),), None, 9)
        accepted = acceptance.accept_missing(
            store, "refused", None, said, profile.upper(), lambda known=known: known
        )
        assert accepted == found
        assert asked.pop() == (known, profile, bool(found))
        ((kind, content),) = store.kept
        assert (kind, content["profiles"], [row[1] for row in content["rows"]]) == (
            "accept", [profile], found
        )  # fmt: skip


@pytest.mark.parametrize(
    ("accounts", "refused_rows", "says"),
    [
        ([account(unanswered=403)], False, None),
        ([account(unanswered=404)], False, None),
        ([account(unanswered=200)], True, None),
        ([account(unanswered=200)], False, "refused nothing of it; .* balances of: none"),
        ([account(profile_id="q", unanswered=403)], False,
         "refused no such profile; it refused to show balances of: q"),
        ([account(profile_id="r", unanswered=403), account(profile_id="q", unanswered=404),
          account(unanswered=None)], False, "nothing of it; it refused to show balances of: q, r"),
        ([account(seen("7", "5"), now="5", asset="BTC", unanswered=403)], False,
         "'p' cannot be left out while its balances do not follow from its transfers: BTC; "),
        ([account(seen("5", "5"), now="5", unanswered=403)], False, None),
    ],
)  # fmt: skip
def test_only_what_the_service_refuses_is_left_out(
    accounts: list[Any], refused_rows: bool, says: str | None
) -> None:
    known = Accounts(tuple(accounts), None, 9)
    if says is None:
        acceptance.check_refused(known, "p", refused_rows)
    else:
        with pytest.raises(InvalidRequest, match=f"profile_id='p'.*{says}|{says}"):
            acceptance.check_refused(known, "p", refused_rows)
