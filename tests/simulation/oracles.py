"""What must be so, whatever happened: by the service's own books, not by the program's."""

from __future__ import annotations

import gc
import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from decimal import Decimal
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

import fundlab as fl
from fundlab.base.errors import (
    ActionRefused,
    AuthenticationFailed,
    CallError,
    FundlabError,
    InvalidRequest,
    NetworkError,
    ProtocolError,
    StoreDamaged,
    StoreError,
    StoreLocked,
    Unavailable,
)
from fundlab.payments.identity import WITHDRAWAL, Entry
from fundlab.payments.journal import Journal
from fundlab.sync.run import MAX_ROUNDS
from tests.simulation.environment import BEGIN_NS, NS, Virtual
from tests.simulation.happenings import MAY_BE_DONE
from tests.simulation.reading import (
    Row,
    files_of_folder,
    records_of_folder,
    rows_of_folder,
    unsound,
    watermarks,
)
from tests.simulation.schedule import Wrong
from tests.simulation.sometimes import sometimes

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.client.http import Outgoing
    from fundlab.evidence.verify import Verification
    from fundlab.sync.run import SyncResult
    from tests.simulation.desk import Desk
    from tests.simulation.happenings import Happening

_LATE_NS: Final = 15 * 60 * 10**9
"""What appears so far behind others is left to full syncs."""
_ON_ITS_WAY: Final = 20
"""The day of a month after which a payment may be one that the bank has not booked yet."""
_EACH: Final = 10
_NOT_LISTED: Final = ("create_orchestration_rule", "create_deposit_address")
_FILES: Final = 32
_BYTES: Final = 64 << 20
_CHANGE: Final = re.compile(r"a change of (-?[0-9.]+)")
_NOTED: Final = re.compile(r"/store/(runs/|\.lock$|\.staging/)|/\.[^/]+\.tmp$")
"""What proves nothing, and may be lost; what a killed run left."""
_SAID: Final = re.compile(
    r"(?:already submitted ((?:\d{4}-\d\d-\d\d )?\d\d:\d\d) UTC)?, "
    r"(but it FAILED and moved nothing|[A-Z]+): withdrawal ([0-9a-f-]{36})"
)
"""Of a payment: when, if it was made before, as what it was seen, and its id."""
_MISSED: Final = re.compile(
    r"not in the restored journal: (\S+) (\S+) of (\S+) (\S+), (\S+), ref_id (.*): paid since"
)
_HOUR_NS: Final = 3600 * 10**9
_JOURNALLED: Final = ("pay", "command", "batch", "approved", "convert", "receive", "register")
_NOUNS: Final = {
    WITHDRAWAL: "withdrawal", "create_fiat_account": "fiat account",
    "update_fiat_account": "account update",
    "create_fiat_deposit_instructions": "deposit instructions",
    "create_deposit_address": "deposit address",
    "create_orchestration_rule": "orchestration rule",
}  # fmt: skip
_JOURNAL_TEXTS: Final = (
    "action", "state", "status", "asset", "account", "profile_id", "fiat_account_id",
    "resource_id", "ref_id", "batch", "detail", "service", "store", "difference", "asked_by",
    "approved_by",
)  # fmt: skip
_URL: Final = "https://desk.example"
_LISTS: Final = {
    "transfers": "/v2/transfer/transfers", "events": "/v2/events",
    "fiat_accounts": "/v2/transfer/fiat-accounts",
    "deposit_instructions": "/v2/transfer/fiat-deposit-instructions",
}  # fmt: skip
_BEFORE_IT_NS: Final = 15 * 60 * 10**9
"""So much earlier than what is known a sync asks again."""
COMPARED: Final = ("status", "amount", "fee", "total", "updated_at")


def check(condition: object, what: str) -> None:
    if not condition:
        raise Wrong(what)


def refuses(
    call: Callable[[], object], *said: str, by: type[Exception] = InvalidRequest, reason: str = ""
) -> None:
    """``call`` is refused ``by`` an error that says why, for this ``reason``."""
    try:
        found = call()
    except by as error:
        missing = [text for text in said if text not in str(error)]
        check(not missing, f"{error} does not say {missing}")
        of = error.reason if isinstance(error, ActionRefused) else ""
        check(of == reason, f"{error} is of {of!r}, not of {reason!r}")
    else:
        raise Wrong(f"nothing refuses {said or reason}: {found!r}"[:500])


def at_the_service(desk: Desk) -> dict[str, Row]:
    """Every transfer in the service's database by its id; ``late`` where it appeared behind others
    by more than a sync looks back. Where syncs do not go by when a transfer was changed, as the
    service was not seen to keep to that, one counts that was entered under a date, too."""
    newest, found = 0, {}
    rows = desk.service.database.all(
        "SELECT created_at_ns, updated_at_ns, body FROM transfers ORDER BY seq"
    )
    for created_ns, updated_ns, body in rows:
        row = _parsed(body)
        by = created_ns if desk.misled else updated_ns
        row["late"], newest = by < newest - _LATE_NS, max(newest, by)
        found[row["id"]] = row
    return found


@lru_cache(20_000)
def _parsed(body: str) -> Row:
    """A row of the service, whose text is another once it was changed."""
    row: Row = json.loads(body)
    return row


def moves(desk: Desk) -> int:
    """How often anything moved at the service so far."""
    ((count,),) = desk.service.database.all("SELECT COUNT(*) FROM events")
    return int(count)


def payments(desk: Desk) -> Counter[str]:
    """How many transfers the service has for each wish."""
    wanted = "SELECT seq, body FROM transfers WHERE seq > ? ORDER BY seq"
    for seq, body in desk.service.database.all(wanted, desk.counted):  # none is removed there
        intent = _parsed(body).get("metadata", {}).get("intent")
        if intent:
            desk.made[intent] += 1
        desk.counted = seq
    return desk.made


def withdrew(desk: Desk, intent: int, status: int, out: str, before: Sequence[str]) -> str:
    """What ``fundlab withdraw`` says of the payment ``intent`` is what the service has, and how it
    ended; the transfer that it names."""
    if out.startswith("{"):
        said = json.loads(out)
        made, again = said["transfer"], said["already_submitted"]
        id_, shown, total = made["id"], made["status"], made["total"]
    else:
        found = re.search(r"(already submitted, )?([A-Z]+): transfer (\S+), total (\S+) USD", out)
        check(found, f"a payment by the command line ended with {status}: {out}")
        again, shown, id_, total = found.groups()  # type: ignore[union-attr]
    row = at_the_service(desk)[id_]
    there = (row.get("metadata") or {}).get("intent")
    check(there == str(intent), f"{id_} is the payment {there}, and was shown for {intent}")
    off = dec(total.replace(",", "")) != dec(row["total"])
    check(not off, f"{id_} comes to {row['total']}, and {total} was shown")
    check(again or not before, f"{before} was paid by this journal, and the command says it is new")
    check((status == 1) == (shown == "FAILED"), f"{id_} is {shown}, and the command said {status}")
    check(status in (0, 1, 3), f"a payment ended with {status}: {out}")
    return str(id_)


def answered(desk: Desk, who: str, status: int, rows: Sequence[Row]) -> None:
    """``fundlab resume`` ends with 3 where something is unknown, and only there."""
    unknown = {row["ref_id"] for row in rows if row["state"] == "unknown"}
    check(unknown == in_doubt(desk, who), f"unknown: {in_doubt(desk, who)}; shown: {unknown}")
    check(status == (3 if unknown else 0), f"{unknown} is unknown, and the command said {status}")


def arrived(desk: Desk, id_: str, memo: str, amount: str) -> None:
    """What was waited for is what was sent, and no more has the memo."""
    there = [row for row in at_the_service(desk).values() if row.get("memo") == memo]
    check([row["id"] for row in there] == [id_], f"{there} has the memo {memo}; shown: {id_}")
    wrong = dec(there[0]["amount"]) != dec(amount) or there[0]["status"] == "PENDING"
    check(not wrong, f"{there} arrived of {amount}")


def recorded(desk: Desk) -> list[Row]:
    """The records of the store, by its files: whole, and with all that was said to be done."""
    records = records_of_folder(desk.root / "store")
    said = {(one["content"].get("item_id"), one["content"].get("comment")) for one in records}
    check(desk.facts.annotations <= said, f"annotations lost: {desk.facts.annotations - said}")
    closed = {one["content"]["period"] for one in records if one["kind"] == "close"}
    check(desk.facts.closed <= closed, f"closes lost: {desk.facts.closed - closed}")
    pins = {one["content"]["pin"] for one in records if one["kind"] == "close"}
    check(desk.facts.pinned.keys() <= pins, f"closes lost: {desk.facts.pinned.keys() - pins}")
    kinds = Counter(one["kind"] for one in records)
    check(kinds["close"] <= kinds["reopen"] + 1, f"{kinds['close']} closes of one month")
    return records


def readable(desk: Desk, folder: Path) -> None:
    """Whatever became of a publication, each of its files is whole, and no row is there twice."""
    files = [pq.read_table(file, columns=["id"]) for file in sorted(folder.rglob("*.parquet"))]
    ids = [id_ for frame in files for id_ in frame["id"].to_pylist()]
    twice = [id_ for id_, count in Counter(ids).items() if count > 1]
    check(not twice, f"published twice: {twice}")
    nobodys = set(ids) - at_the_service(desk).keys() - desk.vanished.keys()
    check(not nobodys, f"published, and not at the service: {nobodys}")


def withdrawn(desk: Desk, *, by_payer: bool = True) -> list[Row]:
    """The withdrawals that the service has and that did not fail; ``by_payer``, those of which the
    payer's journal knows."""
    names = {entry.ref_id for entry in journalled(desk, "payer")}
    rows = at_the_service(desk).values()
    return [row for row in rows if (row.get("ref_id") in names or not by_payer)
            and row["status"] != "FAILED" and row["type"].endswith("_WITHDRAWAL")]  # fmt: skip


def counted_today(desk: Desk, intents: Sequence[int] = (), *, by_payer: bool = False) -> Decimal:
    """What a limit of the day counts with the payments ``intents``: what the service has of this
    day, of anybody or ``by_payer``; and what the payer sent on it, though it was made on another
    day and only answered again, because a journal that was restored did not know it."""
    names = {entry.ref_id for entry in journalled(desk, "payer")
             if _day(entry.sent_at) == today()}  # fmt: skip
    again = {row["ref_id"]: Decimal(row["amount"]) for row in withdrawn(desk)
             if row.get("ref_id") in names}  # fmt: skip
    made = again | _of_today(desk, by_payer=by_payer) | _wished(desk, intents)
    return sum(made.values(), Decimal(0))


def _of_today(desk: Desk, *, by_payer: bool) -> dict[str, Decimal]:
    return {
        row.get("ref_id") or row["id"]: Decimal(row["amount"])
        for row in withdrawn(desk, by_payer=by_payer) if row["created_at"][:10] == today()
    }  # fmt: skip


def today() -> str:
    """2026-11-01, say: the day in UTC, by the service's clock."""
    return _day(Virtual.now_ns)


def _day(ns: int) -> str:
    return str(fl.base.values.Instant.from_ns(ns))[:10]


def _wished(desk: Desk, intents: Sequence[int]) -> dict[str, Decimal]:
    return {f"invoice-{one}": Decimal(desk.wishes[one].amount) for one in intents}


def within_limit(desk: Desk, limit: Decimal, intents: Sequence[int]) -> None:
    """Who has just paid under a limit of the day has not paid more on that day, and begun no table
    of payments of which some would be above it."""
    if not desk._skews.get("payer"):  # else it is another day to this machine
        made = _of_today(desk, by_payer=True) | _wished(desk, intents)
        total = sum(made.values(), Decimal(0))
        check(total <= limit, f"{total} was to be paid on this day, of {limit}")


def above_limit(desk: Desk, limit: Decimal | None, intents: Sequence[int]) -> None:
    """Payments that a limit of the day refused are above it with all that the payer has begun and
    all that the service has: a journal that came back from a backup lacks some of that."""
    entries = [entry for entry in journalled(desk, "payer") if entry.operation == WITHDRAWAL]
    begun = {entry.ref_id: Decimal(entry.arguments["amount"]) for entry in entries}
    total = sum((begun | _of_today(desk, by_payer=False) | _wished(desk, intents)).values())
    check(
        limit is not None and total > limit,
        f"payments were refused that come to {total}, with a limit of {limit}",
    )


def still_open(desk: Desk, refusal: ActionRefused, began: int) -> None:
    """Of the payments that a limit of the day counts, though they may have failed, none is shown
    by the service as completed, which it was when the table was given (``began``, ns)."""
    found = re.search(r"and counted: ref_id (.+): 'fundlab resume'", str(refusal))
    check(found or " counted" not in str(refusal), f"nobody finds the names in: {refusal}")
    named = re.split(", | and ", found[1]) if found else []
    moment = str(fl.base.values.Instant.from_ns(began))
    done = {row.get("ref_id") for row in withdrawn(desk, by_payer=False)
            if row["status"] == "COMPLETED" and row["updated_at"] < moment} & {*named}  # fmt: skip
    check(not done, f"{done} are completed, and the refusal says: {refusal}")


# ------------------------------------------------------------------------------ at quiet moments


def refusal(desk: Desk, one: Happening, error: FundlabError, met: list[str]) -> None:
    """What the program may say where something fails, after it ``met`` so much."""
    no_matter = isinstance(error, NetworkError | Unavailable) and len(met) <= 1
    no_matter = no_matter and one.what not in ("fund", "quote")  # not sent again by itself
    check(not no_matter, f"{one.what}: one message that went wrong ({met}) stopped it: {error}")
    wrong = isinstance(error, InvalidRequest) and one.what not in ("close", "reopen")
    check(not wrong, f"{one.what}: nobody asked for what cannot be, yet: {error}")
    strange = isinstance(error, ProtocolError)
    check(not strange, f"{one.what}: the service never answers anything else, yet: {error}")
    check(not isinstance(error, StoreDamaged), f"{one.what}: nothing was damaged, yet: {error}")
    one_expired = met == ["expired"] and isinstance(error, AuthenticationFailed)
    one_expired = one_expired and not desk._skews  # and not refused for its time before
    one_expired = one_expired and "invalid_client" not in str(error)  # the secret was another
    one_expired = one_expired and desk.keys < 2  # it was refused before, for its signature
    one_expired = one_expired and len(desk.refused_tokens[one.who]) < 2  # another's fault ended one
    check(not one_expired, f"{one.what}: the token had ended, and nobody asked for one: {error}")
    of_the_store = isinstance(error, StoreError) and not isinstance(error, StoreLocked)
    synced = any(files_of_folder(desk.root / "store").values())
    if of_the_store and synced and one.what != "restore":
        excuse = met or desk.unlocked or desk.troubled or desk.lost
        check(excuse, f"{one.what}: nothing went wrong, yet: {error}")
    if one.what == "pay":
        refused(desk)


def says_so(desk: Desk, who: str, error: FundlabError) -> None:
    """Of a call that the service may have carried out, and not answered, the error says so."""
    of_call = isinstance(error, CallError) and str(error.operation).startswith("create_")
    of_call = of_call and error.operation != "create_crypto_withdrawal_fee"  # asks for a price
    if of_call and desk.posted.get(who, ("", False))[1]:
        text = str(error)
        check("may have been carried out" in text, f"it may have been carried out, yet: {text}")
        check("nothing was sent" not in text, f"it was sent, yet: {text}")


def refused(desk: Desk) -> None:
    """Of a payment that the service has, the journal of who pays never says that it was refused;
    unless a colleague made it."""
    made = payments(desk)
    for entry in journalled(desk, "payer"):
        intent = (entry.arguments.get("metadata") or {}).get("intent")
        if entry.operation == WITHDRAWAL and intent and int(intent) not in desk.shared:
            wrong = entry.state == "refused" and intent in made
            check(not wrong, f"{entry.ref_id} was made, and the journal says it was refused")


def journalled(desk: Desk, who: str) -> list[Entry]:
    return [
        entry
        for path in sorted(desk.journal(who).glob("*.sqlite"))
        for entry in Journal(path).entries()
    ]


def in_doubt(desk: Desk, who: str) -> set[str]:
    return {entry.ref_id for entry in journalled(desk, who) if entry.state == "unknown"}


def journals_keep(desk: Desk, *people: str) -> None:
    """What somebody was shown as paid is so in the journal."""
    for who in people:
        wanted = {ref_id: id_ for (name, ref_id), id_ in desk.facts.paid.items() if name == who}
        held = {e.ref_id: e.resource_id for e in journalled(desk, who) if e.state == "done"}
        for ref_id, id_ in wanted.items():
            found = held.get(ref_id)
            check(found == id_, f"{ref_id} was paid as {id_}, and the journal of {who} has {found}")


def journal_keeps(desk: Desk, who: str, ref_id: str) -> None:
    """What was paid just now is so in the journal; now and then, that all is."""
    if len(desk.facts.paid) % _EACH == 0:
        journals_keep(desk, who)
        return
    found = [Journal(path).find(ref_id) for path in desk.journal(who).glob("*.sqlite")]
    made = [entry.resource_id for entry in found if entry is not None and entry.state == "done"]
    id_ = desk.facts.paid[who, ref_id]
    check(made == [id_], f"{ref_id} was paid as {id_}, and the journal of {who} has {made}")


def lines_of_journals(desk: Desk, who: str) -> list[Row]:
    """What is noted of each intent, by the files alone: its lines in order, each with what it is
    of."""
    found: list[Row] = []
    for path in sorted(desk.journal(who).glob("*.sqlite")):
        with closing(sqlite3.Connection(path)) as database:
            database.row_factory = sqlite3.Row
            found += map(dict, database.execute(
                "SELECT i.ref_id, i.operation, i.recorded_at, i.facts, i.body, i.batch, i.store, "
                "e.* FROM events e "
                "JOIN intents i ON i.number = e.intent ORDER BY i.number, e.number"
            ))  # fmt: skip
    return found


def at_the_service_by_ids(desk: Desk) -> dict[str, Row]:
    """All that a journal may say was made, by its id."""
    tables = ("fiat_accounts", "fiat_deposit_instructions", "deposit_addresses", "rules")
    return at_the_service(desk) | desk.vanished | {
        (one := json.loads(body))["id"]: one for table in tables
        for (body,) in desk.service.database.all(f"SELECT body FROM {table}")
    }  # fmt: skip


def each_line_is_so(desk: Desk, who: str, *, settled: bool = False) -> None:
    """Each line of a journal says of what was made what the service does: which it is, by its
    ref_id, what it came to, and as what it was seen; nothing is the work of two. Once it is
    ``settled`` the last one has its state of now."""
    there, lines = at_the_service_by_ids(desk), lines_of_journals(desk, who)
    of: dict[str, set[str]] = defaultdict(set)
    for before, line, after in zip([{}, *lines], lines, [*lines[1:], {}], strict=False):
        ref_id, first = line["ref_id"], before.get("intent") != line["intent"]
        said = f"{who}, {ref_id}: {line}"
        check(not first or line["at"] == line["recorded_at"], f"begun at another time: {said}")
        check(not first or line["state"] == "unknown", f"settled before it was sent: {said}")
        if line["state"] != "done":
            made = [line[name] for name in ("resource_id", "status", "fee", "total")]
            check(made == [None] * 4, f"not done, and made: {said}")
            lost = not first and before["state"] == "done" and line["state"] != "unknown"
            check(not lost, f"what was done is not any more: {said}")
            continue
        row = there.get(line["resource_id"])
        if ref_id in desk.altered:
            continue
        if row is None:
            raise Wrong(f"nobody made it: {said}")
        if line["operation"] != "update_fiat_account":
            of[row["id"]].add(ref_id)
            check(row.get("ref_id", ref_id).casefold() == ref_id.casefold(), f"not {row}: {said}")
        for name in ("fee", "total"):
            amounts = row.get(name), line[name]
            same = amounts[0] == amounts[1] or (
                None not in amounts and dec(amounts[0]) == dec(amounts[1])
            )  # type: ignore[arg-type]
            check(same, f"{name} is {row.get(name)}: {said}")
        if line["operation"] == WITHDRAWAL:
            check(line["status"] in (row["status"], "PENDING"), f"is {row['status']}: {said}")
            last = after.get("intent") != line["intent"]
            check(not (settled and last) or line["status"] == row["status"], f"{row}: {said}")
            shown = json.loads(line["facts"])
            for name in ("profile_id", "fiat_account_id", "asset"):
                check(shown[name] == row[name], f"{name} is {row[name]}: {said}")
            amount = shown["amount"]
            check(amount is None or dec(amount) == dec(row["amount"]), f"{row['amount']}: {said}")
    twice = {id_: names for id_, names in of.items() if len(names) > 1}
    check(not twice, f"made once, for several: {twice}")


def looked_at(desk: Desk, who: str, frame: pd.DataFrame, before: list[Row]) -> None:
    """``fl.resume`` looks at each entry that was open ``before``, and shows of it what the journal
    has now."""
    last = {line["ref_id"]: line for line in before}
    wanted = {ref_id for ref_id, line in last.items() if line["state"] in ("unknown", "absent")
              or line["status"] == "PENDING"}  # fmt: skip
    done = {line["ref_id"] for line in before if line["state"] == "done"}
    shown = {row["ref_id"]: row for row in frame.to_dict("records")}
    missing = wanted - shown.keys() - (done - {n for n in done if last[n]["status"] == "PENDING"})
    check(not missing, f"{missing} is open, and fl.resume did not look at it")
    more = shown.keys() & {name for name in done if last[name]["status"] not in (None, "PENDING")}
    check(not more, f"{more} is settled, and fl.resume looked at it")
    newest = {line["ref_id"]: line for line in lines_of_journals(desk, who)}
    for ref_id, row in shown.items():
        line = newest[ref_id]
        detail = row["detail"] if isinstance(row["detail"], str) else None
        told = detail and any(f"{ref_id}: {detail}" in text for text in desk.said)
        check(told or detail == line["detail"], f"{row} is shown of {line}")
        line = line if line["state"] == "done" else None
        check((row["state"] == "done") == (line is not None), f"{row} is shown, there is {line}")
        if line is not None:
            status = row["status"] if isinstance(row["status"], str) else None
            got = row["resource_id"], status
            check(got == (line["resource_id"], line["status"]), f"{row} is shown of {line}")
            off = line["total"] is not None and dec(line["total"]) != row["total"]
            check(not off, f"{row} is shown of {line}")


def ended(desk: Desk, who: str, shown: Any) -> None:
    """How what was waited for has ended, as somebody was ``shown`` it, is the last that the journal
    says of it."""
    lines = [line for line in lines_of_journals(desk, who) if line["ref_id"] == shown.ref_id]
    noted = [(line["resource_id"], line["status"]) for line in lines[-1:]]
    check(noted == [(shown.id, shown.status)], f"{shown} was waited for, and noted is {noted}")


def journal_shows(desk: Desk, who: str, frame: pd.DataFrame) -> None:
    """A journal as a table has of each intent what its lines say, nothing else, in the types that
    it names."""
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    wanted = dict.fromkeys(_JOURNAL_TEXTS, "str") | {"number": "int64"}
    wanted |= dict.fromkeys(("confirmed_at", "noted_at"), "datetime64[ns, UTC]")
    wanted |= dict.fromkeys(("amount", "fee", "total"), "decimal")
    check(types == wanted, f"a journal has the columns {types}, not {wanted}")
    newest: dict[int, Row] = {}
    for line in lines_of_journals(desk, who):
        if line["state"] == "done" or newest.get(line["intent"], line)["state"] != "done":
            newest[line["intent"]] = line
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    check([row["number"] for row in rows] == [*newest], f"{[*newest]} was confirmed: {frame}")
    for row, line in zip(rows, newest.values(), strict=True):
        asked, facts = json.loads(line["body"]), json.loads(line["facts"])
        right = {name: line[name] for name in (
            "state", "resource_id", "ref_id", "batch", "detail", "store",
        )} | {
            "confirmed_at": line["recorded_at"], "noted_at": line["at"], "service": _URL,
            "action": _NOUNS[line["operation"]], "account": facts.get("account"),
            "asked_by": facts.get("asked_by"), "approved_by": facts.get("approved_by"),
            "profile_id": asked.get("profile_id"), "asset": asked.get("asset"),
            "fiat_account_id": asked.get("fiat_account_id", facts.get("fiat_account_id")),
        }  # fmt: skip
        if line["operation"] != WITHDRAWAL:
            right |= {name: facts.get(name) for name in ("asset", "profile_id")}
        got = {name: row[name].value if name.endswith("_at") else row[name] for name in right}
        off = {name: (got[name], value) for name, value in right.items() if got[name] != value}
        check(not off, f"{line['ref_id']} is shown with {off}")
        amounts = {name: line[name] for name in ("fee", "total")} | {"amount": asked.get("amount")}
        off = {name: (row[name], text) for name, text in amounts.items()
               if (text is not None or (name == "amount" and "total" not in asked))
               and row[name] != (None if text is None else dec(text))}  # fmt: skip
        check(not off, f"{line['ref_id']} is shown with {off}")
        shown = row["status"], line["status"]
        check(shown[0] == shown[1] or shown[1] == "PENDING", f"{line['ref_id']}: {shown}")


def missed(desk: Desk, who: str, said: Sequence[str], backed_up_at: Sequence[int]) -> None:
    """Of a journal that came back from a backup, which began and ended at these moments (ns), is
    said what was paid from an hour before that on, and is not in it, and nothing else."""
    lines = lines_of_journals(desk, who)
    known = {line["resource_id"] for line in lines} | {line["ref_id"].casefold() for line in lines}
    unknown = {id_: row for id_, row in at_the_service(desk).items() if row["direction"] == "DEBIT"
               and not known & {id_, (row.get("ref_id") or "").casefold()}}  # fmt: skip
    must, may = ({id_ for id_, row in unknown.items() if moment(row["created_at"]) >= at - _HOUR_NS}
                 for at in reversed(backed_up_at))  # fmt: skip
    told = {found[2]: found for text in said if (found := _MISSED.match(text))}
    right = must <= told.keys() <= may or desk._skews or desk.misled
    check(right, f"paid since a backup: {must} to {may}, and said: {told.keys()}")
    for id_, found in told.items():
        row = at_the_service(desk)[id_]
        got = found[1], dec(found[3]), found[4], moment(found[5]), found[6]
        wanted = (row["type"], dec(row["total"]), row["asset"], moment(row["created_at"]),
                  str(row.get("ref_id")))  # fmt: skip
        check(got == wanted, f"{found[0]} was said of {row}")


def made(desk: Desk, one: Any, **asked: str) -> None:
    """What somebody was given as made is what the service has, and was ``asked`` for."""
    row, got = at_the_service(desk)[one.id], one.to_json()
    later = ("status", "updated_at", "secondary_status", "status_details", "late")
    differ = {name for name in row.keys() | got.keys() if row.get(name) != got.get(name)}
    check(not differ - {*later}, f"{sorted(differ)} of {got} is another than in {row}")
    wrong = {name for name, value in asked.items() if row.get(name) != value}
    check(not wrong, f"{asked} was asked for, and there is {row}")


def batched(desk: Desk, found: pd.DataFrame, given: Sequence[Row], met: Collection[str]) -> None:
    """What a table of payments says of each is so at the service, beside what was given; its
    messages ``met`` these faults."""
    theirs = at_the_service(desk)
    for row, asked in zip(found.to_dict("records"), given, strict=True):
        same = {name: row[name] for name in asked} == asked
        check(same, f"{asked} was given, and it shows {row}")
        if row["state"] == "done":
            there = theirs[row["transfer_id"]]
            got = [there["ref_id"], there["amount"], *(dec(there[n]) for n in ("fee", "total"))]
            check(got == [row[n] for n in ("ref_id", "amount", "fee", "total")], f"{row}, {there}")
            check(row["status"] in (there["status"], "PENDING"), f"{row} is {there['status']}")
        else:
            # not the last word: a refusal for a journal that came back, which shows what that knew
            # before, one after a request that may have been carried out, and one of a proxy
            may = ["refused"]
            may += ["unknown"] if desk.came_back or {*met} & {*MAY_BE_DONE} else []
            may += ["absent"] if "was restored from a backup" in str(row["detail"]) else []
            nothing = row["state"] in may and not isinstance(row["transfer_id"], str)
            check(nothing, f"it was not made: {row}")


def each_word_is_so(desk: Desk) -> None:
    """What was said under cells and on terminals of a transfer, by its id, is so."""
    theirs = at_the_service(desk) | desk.vanished
    began = defaultdict[str, set[str]](set)  # two may have recorded the same payment
    for who in desk.people:
        for one in lines_of_journals(desk, who):
            known = str(fl.base.values.Instant.from_ns(one["recorded_at"]))
            began[one["resource_id"]].add(f"{known[:10]} {known[11:16]}")
    for text in desk.said:
        for line in text.splitlines():
            for at, outcome, id_ in _SAID.findall(line):
                row = theirs.get(id_)
                check(row is not None, f"{line} was said, and there is no such transfer")
                failed = outcome == "but it FAILED and moved nothing"
                right = (
                    row["status"] == "FAILED" if failed else outcome in (row["status"], "PENDING")
                )  # type: ignore[index]
                check(right, f"{line} was said, and it is {row}")
                check(failed or outcome != "FAILED", f"{line} was said of {row}")
                if at and began[id_] and not (desk._skews or desk.came_back):
                    right = any(wanted.endswith(at) for wanted in began[id_])
                    check(right, f"{line} was said of what began at {began[id_]}")


def asked_first(desk: Desk, who: str, *, new: bool) -> None:
    """A journal that came from a backup pays nothing before the service was asked."""
    for path in desk.journal(who).glob("*.sqlite") if new else ():
        at = Journal(path).restored_from()
        check(at is None, f"the journal of {at} paid, and nobody has asked what came after it")


def after_a_crash(desk: Desk) -> None:
    if desk.facts.rows and not desk.lost:  # before anybody fetches it again
        kept(desk, held(desk.store()))
        recorded(desk)
    readable(desk, desk.root / "published" / "transfers")
    refused(desk)
    journals_keep(desk, "payer", "auditor")


def resumed(desk: Desk, who: str, said: list[str]) -> None:
    """Of all that is not known something was found out, or it is said that it could not be."""
    for entry in journalled(desk, who):
        named = entry.state != "unknown" or any(entry.ref_id in line for line in said)
        check(named, f"fl.resume left {entry.ref_id} unknown")


def clean(store: fl.Store) -> None:
    """What was closed without a word had nothing to be said."""
    found = store.verify()
    check(found.ok, f"closed without a word, yet: {found}")


def unfinished(desk: Desk) -> set[Path]:
    """The hidden files of the store, and of what is on its way to a bucket."""
    return {Path(name) for name in desk.disk.hidden() if "/store/" in name or "/scratch/" in name}


def tidy(desk: Desk, before: set[Path]) -> None:
    """Whoever is done, or fails, and is not killed, leaves nothing half written."""
    if desk.disk.fails("removes") is None:
        left = unfinished(desk) - before
        check(not left, f"what ended left {sorted(map(str, left))}")


def loose(desk: Desk) -> set[str]:
    """The files of the store whose names a power cut may take."""
    return {name for name in desk.disk.loose(desk.root / "store") if not _NOTED.search(name)}


def lasting(desk: Desk, before: set[str]) -> None:
    """What somebody has done, and nobody else was at anything, no power cut takes away; what one
    who was killed left ``before`` it may go, and merged rows for which the disk had no room."""
    folder = desk.root / "store"
    named = {name for some in files_of_folder(folder).values() for name in some}
    number, _ = (
        json.loads((folder / "head").read_bytes()) if (folder / "head").exists() else (0, "")
    )
    # of a merge in whose last steps there was no more room: what was published before it stays
    merging = {f"{number + 1:08d}.json", "head"}
    left = {
        name for name in loose(desk) - before
        if not Path(name).name.startswith("base-") or Path(name).name in named
        if not (desk.troubled and Path(name).name in merging)
    }  # fmt: skip
    check(not left, f"done, and a power cut may take {sorted(left)}")


def bounded(desk: Desk) -> None:
    """Between two actions nobody holds on to many files or much memory."""
    held_open = open_files(desk)
    check(len(held_open) <= _FILES, f"{len(held_open)} files are open: {held_open}")
    held_bytes = pa.total_allocated_bytes()
    check(held_bytes <= _BYTES, f"{held_bytes} bytes are held between two actions")


def open_files(desk: Desk) -> list[str]:
    """The files of this run that the process has open."""
    root = Path(desk.disk.really)
    return [
        str(handle.readlink())
        for handle in Path("/proc/self/fd").iterdir()
        if handle.is_symlink() and root in handle.readlink().parents
    ]


def synced(desk: Desk, store: fl.Store, before: dict[str, Row], *, full: bool) -> None:
    """After a sync that says it is done: the store has all that the service had ``before`` it."""
    rows = held(store)
    known = desk.facts.rows
    has_all(desk, rows, before, full=full)
    sound(desk, store)
    if full and known:
        late = any(before[id_]["late"] for id_ in rows.keys() & before.keys() - known.keys())
        sometimes("a full sync found what had come late", late)
    sometimes("a row was set aside", desk.garbled and desk.garbled not in rows)
    kept(desk, rows)
    if len(desk.busy) == 1 and not any(desk._skews.values()):  # by a clock that is right, alone
        desk.facts.history.append((Virtual.now_ns, desk.facts.rows))


def sound(desk: Desk, store: fl.Store) -> None:
    """Each file of a store on this machine is as it says of itself, and as the others say."""
    assert isinstance(store.path, Path)
    ended = not (desk.killed or desk.troubled)
    wrong = unsound(store.path, clock_is_right=not desk._skews, ended=ended)
    check(not wrong, f"{store.path.name}: {wrong[:5]}")


def counted(store: fl.Store, result: SyncResult, had: dict[str, Row]) -> None:
    """What a sync says that it wrote is what its store has more than it ``had``."""
    has, done = held(store), result["transfers"]
    new, differ = has.keys() - had.keys(), [id_ for id_ in had if has.get(id_) != had[id_]]
    check(done.new == len(new), f"{new} is new, and the sync says {done}")
    check(done.changed >= len(differ), f"{differ} is another, and the sync says {done}")
    written = done.new + done.changed
    check((done.part is None) == (not written), f"{written} rows were written: {done}")


def bases(store: fl.Store) -> set[tuple[str, str]]:
    """The merged files that a store has, each with its table."""
    assert isinstance(store.path, Path)
    named = files_of_folder(store.path)
    return {(table, name) for table in named for name in named[table] if name.startswith("base-")}


def merged(desk: Desk, store: fl.Store, result: SyncResult, before: set[tuple[str, str]]) -> None:
    """A sync says of which tables it has merged the files, and of no others; not of one after whose
    manifest there was no more room on the disk."""
    tables = {table for table, _ in bases(store) - before}
    (said,) = [
        {*line.removeprefix("merged the files of ").split(", ")}
        for line in str(result).splitlines() if line.startswith("merged the files of ")
    ] or [set()]  # fmt: skip
    cut_short = desk.troubled and said < tables
    right = (said == tables or cut_short) and said == {*result.compacted}
    check(right, f"of {tables} files were merged: {result}")


def marks(store: fl.Store) -> dict[str, dict[str, int]]:
    """Up to where (ns) each table of a store is known, by its files."""
    assert isinstance(store.path, Path)
    return {table: {name: moment(mark["at"]) for name, mark in found.items()}
            for table, found in watermarks(store.path).items()}  # fmt: skip


def asked_for(
    desk: Desk, who: str, result: SyncResult, marks: dict[str, dict[str, int]], *, full: bool
) -> None:
    """A sync has asked for what may have changed since it was last known, and for no more; it says
    how many pages and rows came. (Not where anything went wrong.)"""
    if desk.met[who] or desk.misled or desk.deaf or desk.longest_page or desk._skews:
        return
    asked = [(urlsplit(url), answer) for url, answer in desk.answers[who]]
    first_round = takewhile(lambda one: "/balances/" not in one[0].path, asked)
    lists = Counter(url for url, answer in first_round if answer.status == 200)
    twice = [url for url, count in lists.items() if count > 1 and url.path in _LISTS.values()]
    check(not twice, f"asked for again, though it was answered: {twice}")
    balances = [url.path for url, _ in asked if "/balances/" in url.path]
    for table, path in _LISTS.items():
        if table not in {one.table for one in result.tables}:
            continue
        known, done, ids, pages, first = marks.get(table, {}), result[table], set[str](), 0, None
        rows = 0
        before_balances = True
        for url, answer in asked:
            before_balances &= "/balances/" not in url.path
            if url.path != path:
                continue
            if answer.status == 401:  # its token or its secret was another's
                continue
            check(answer.status == 200, f"{url} was answered with {answer.status}")
            query = parse_qs(url.query)
            if "created_at.lt" in query or query.get("limit") == ["1"]:
                continue  # a look at old rows, or at the newest
            first = query if first is None else first
            (items,) = (one for one in json.loads(answer.body).values() if isinstance(one, list))
            ids |= {row["id"] for row in items}
            pages += query["order"] == ["ASC"]  # else it looks from the other end
            rows += before_balances * len(items)
        lists = done.new + done.changed + done.unchanged
        ended = not desk.garbled and not desk.vanished and not desk.was_garbled
        check(not ended or lists == len(ids), f"{len(ids)} of {table} came, and it says {done}")
        check(done.pages == pages, f"{pages} pages of {table} came, and it says {done}")
        check(not ended or 0 <= done.fetched - rows <= done.new + done.changed, f"{rows}, {done}")
        name = "updated" if "updated" in known else "created"
        if known and not full and table in ("transfers", "events"):
            assert first is not None
            got = {one: moment(text) for one, (text,) in first.items() if "_at." in one}
            wanted = {f"{name}_at.gte": known[name] - _BEFORE_IT_NS}
            check(got == wanted, f"{table} was asked for from {got} on, not {wanted}")
        elif table == "transfers" or full:
            check(first is not None and not any("_at." in one for one in first), f"{first}")
    pairs = Counter(balances)
    quiet = max(pairs.values(), default=0) <= 1
    seen = {one.table: one.new for one in result.tables}.get("balances")
    check(not quiet or seen in (None, len(pairs)), f"{len(pairs)} balances, and it says {seen}")


def written_down(desk: Desk, who: str, request: Outgoing) -> None:
    """What changes anything is in the journal of who sends it, as it is sent, and as not known to
    be done, before it is sent."""
    made = request.method in ("POST", "PUT") and "/oauth2/" not in request.url
    body = json.loads(request.body or b"{}") if made else {}
    if desk.doing.get(who) not in _JOURNALLED or not made:
        return
    found = []
    for path in sorted(desk.journal(who).glob("*.sqlite")):
        with closing(sqlite3.Connection(path)) as database:
            found += database.execute(
                "SELECT number, operation, body, store, (SELECT state FROM events WHERE intent = "
                "intents.number ORDER BY number DESC LIMIT 1), facts, batch FROM intents "
                "WHERE ref_id = ?", (body.get("ref_id"),)
            ).fetchall()  # fmt: skip
    check(len(found) == 1, f"{body.get('ref_id')} is sent, and in the journal there is {found}")
    _, operation, kept, store, state, facts, batch = found[0]
    check(state in ("unknown", "done"), f"{body['ref_id']} is sent, and is {state}")
    masked = "account_number" in str(body)
    same = json.loads(kept) == body or masked
    check(same, f"{request.body!r} is sent, and the journal of {who} has {kept!r}")
    check(store == str(desk.root / "store"), f"{body['ref_id']} is of the store {store}")
    check((batch is None) == (desk.doing[who] != "batch"), f"{body['ref_id']} is of {batch}")
    shown = json.loads(facts)
    for name in ("amount", "profile_id", "fiat_account_id", "asset"):
        if operation == WITHDRAWAL and name in body:
            check(shown[name] == body[name], f"{body['ref_id']}: {name} was shown as {shown}")


def has_all(
    desk: Desk, rows: dict[str, Row], before: dict[str, Row], *, full: bool = False
) -> None:
    """``rows`` of a store are at least as new as those that the service had ``before``."""
    for id_, row in before.items():
        if (row["late"] and not full) or id_ in desk.vanished or (desk.garbled == id_):
            continue
        check(id_ in rows, f"the sync left out transfer {id_} of {row['created_at']}")
        mine, theirs = rows[id_]["updated_at"], moment(row["updated_at"])
        check(mine >= theirs, f"the sync left transfer {id_} as of {mine}, not {theirs}")


def loaded(
    desk: Desk, frame: pd.DataFrame, before: dict[str, Row], start: int | None, order: str
) -> None:
    """What was loaded has each row once, in order, none of before ``start``, and all that the
    service had ``before`` from then on, as it was or newer."""
    created = [time.value for time in frame["created_at"]]
    check(created == sorted(created, reverse=order == "DESC"), f"loaded out of order: {order}")
    check(frame["id"].is_unique, "a row was loaded twice")
    check(start is None or min(created, default=start) >= start, "rows of before were loaded")
    known = at_the_service(desk)
    rows = {row["id"]: row for row in frame.to_dict("records")}
    for id_, row in rows.items():
        there = known.get(id_)
        if there is not None and moment(there["updated_at"]) == row["updated_at"].value:
            for name in ("amount", "total"):
                check(row[name] == dec(there[name]), f"{id_} has another {name}: {row[name]}")
    wanted = {
        id_: row for id_, row in before.items()
        if start is None or moment(row["created_at"]) >= start
    }  # fmt: skip
    times = {id_: row | {"updated_at": row["updated_at"].value} for id_, row in rows.items()}
    has_all(desk, times, wanted, full=True)


def balanced(desk: Desk, who: str, store: fl.Store, result: SyncResult, moved: int) -> None:
    """After a sync while anything ``moved``: a balance was left out only if it moved at each look,
    and those that were kept belong to the transfers. One that a firewall refused proves nothing."""
    if "balances" in {one.table for one in result.tables}:
        last = {url: answer.status for url, answer in desk.answers[who] if "/balances/" in url}
        desk.facts.proved = {} if result.unsettled or 403 in last.values() else desk.facts.rows
    if desk.misled or not moved:
        return
    left = result.unsettled
    check(not left or moved >= MAX_ROUNDS, f"{left} were left out, and {moved} changes were there")
    if desk.attempts % 2:  # it is dear: a tenth of a run
        verified(desk, store)


def quoted(desk: Desk, quote: Any, amount: str) -> None:
    """A quote is of what was asked for, and its total is that and the fee."""
    total = Decimal(quote.amount.text) + Decimal(quote.fee.text)
    check(Decimal(quote.amount.text) == Decimal(amount), f"{quote} was quoted, of {amount}")
    check(Decimal(quote.total.text) == total, f"{quote} does not add up to {total}")


def gone(desk: Desk, ids: Sequence[str]) -> None:
    """What a store calls gone, the service shows no more."""
    sometimes("a transfer was listed no more", ids)
    check(set(ids) <= desk.vanished.keys(), f"{ids} is called gone, and {desk.vanished.keys()} is")


def reconciled(
    desk: Desk, store: fl.Store, found: fl.bank.Reconciliation, lines: Sequence[Row],
    right: Sequence[Row],
) -> None:  # fmt: skip
    """A month agrees with its bank where the store has all of it and the bank booked what is
    ``right``, and not where the bank erred: then what is wrong by how much is named. What the bank
    left out of the month's last days may be on its way yet."""
    check(not any(found.statement["line"].eq("difference") & found.statement["amount"].ne(0)),
          f"the reconciliation does not add up: {found}")  # fmt: skip
    whole = {id_ for one in right for id_ in one["transfer_ids"]} <= held(store).keys()
    if not whole or desk.misled or desk.vanished or desk.was_garbled:
        return
    booked, meant = (
        Counter((Decimal(one["amount"]), one["booked_on"], *one["transfer_ids"]) for one in some)
        for some in (lines, right)
    )
    wrong, left_out = booked - meant, meant - booked
    recent = all(int(day[-2:]) > _ON_ITS_WAY for _, day, *_ in left_out)
    if not (left_out and not wrong and recent):
        check(found.ok == (booked == meant), f"{wrong}, {left_out} at the bank, yet: {found}")
    amounts = {abs(amount) for amount, *_ in wrong + left_out}
    amounts.add(abs(sum(one[0] for one in wrong) - sum(one[0] for one in left_out)))
    named = {abs(amount) for amount in found.unexplained["amount"]}
    check(found.ok or amounts & named, f"{wrong}, {left_out} at the bank, named: {named}")
    sometimes("an error of the bank was found", not found.ok)
    sometimes("a month agreed with its bank statement", booked == meant and lines)


def published(desk: Desk, folder: Path, store: fl.Store) -> None:
    """Other engines read what the store holds: every row once, and no file beside them."""
    frames = [pq.read_table(file) for file in sorted(folder.rglob("*.parquet"))]
    rows = [row for frame in frames for row in frame.select(["id", "status"]).to_pylist()]
    mine = {id_: row["status"] for id_, row in held(store).items()}
    check(len(rows) == len({row["id"] for row in rows}), "a row was published twice")
    wrong = dict({row["id"]: row["status"] for row in rows}.items() ^ mine.items())
    check(not wrong, f"published otherwise than the store has it: {wrong}")


def pinned(store: fl.Store, pin: str) -> dict[str, Row]:
    """The transfers that a close was made of."""
    check(pin in store.pins(), f"the pin {pin} of a close is not there")
    return held(store, pin=pin)


def kept(desk: Desk, rows: dict[str, Row]) -> None:
    """What was there once is there still, and no older than it was."""
    for id_, updated in desk.facts.rows.items():
        check(id_ in rows, f"transfer {id_} was in the store, and is no more")
        check(rows[id_]["updated_at"] >= updated, f"transfer {id_} is older than it was")
    desk.facts.rows = {id_: row["updated_at"] for id_, row in rows.items()}


def verified(desk: Desk, store: fl.Store, *, all_known: bool = False) -> Verification:
    """No problem that the seed did not plant, and none that it planted left out. That the balances
    prove the store is said where its transfers are those with which they were last read, and not
    where another one has come since."""
    proved, found = desk.facts.proved, store.verify()
    check(not found.is_damaged, f"nothing was damaged, yet: {found}")
    late = any(row["late"] for row in at_the_service(desk).values())
    if desk.misled or (late and not all_known):
        return found
    if (desk.vanished or desk.was_garbled) and not all_known:
        return found  # what is gone or set aside is a problem, and what lacks it
    where = planted_balance(desk) if desk.planted else "nowhere"
    others = [str(one) for one in found.problems if not one.where.startswith(where)]
    check(not others, f"{others} is wrong, of {found}")
    if proved is not None and proved is desk.facts.proved and not desk.planted:  # nobody syncs
        rows = {id_: row["updated_at"] for id_, row in held(store).items()}
        came = dict(rows.items() - proved.items())
        # what is gone may have met a firewall's 403 when it was asked for: it is said until then
        gone = store.gone()
        kept_as = {*gone[gone["state"] == "refused"]["id"]} if len(gone) else set()
        check(kept_as <= desk.forbidden, f"{kept_as} is called refused, not {desk.forbidden}")
        check(found.ok == (not came and not kept_as), f"{came} came after the balances: {found}")
    return found


def planted_balance(desk: Desk) -> str:
    """What the problem of it begins with."""
    return f"profile {desk.profiles[0]}, USD, "


def names_planted(desk: Desk, found: Verification) -> None:
    """What changed without a transfer is named: whose balance, and by how much."""
    changes = [
        Decimal(_CHANGE.findall(entry.found)[0]) - Decimal(_CHANGE.findall(entry.expected)[0])
        for entry in found.problems
        if entry.where.startswith(planted_balance(desk))
    ]
    wanted = -Decimal(sum(desk.planted)) / 100
    check(sum(changes) == wanted, f"{wanted} USD changed without a transfer; named: {changes}")


def closings_tie(desk: Desk, store: fl.Store) -> None:
    """What a period was closed with is what the service's books say of it now, or it is reported
    as moved."""
    moved = set(store.restatements()["period"])
    sometimes("a closed month has moved", moved)
    closed = {}
    for record in store.records():
        if record.kind == "close":
            closed[record.content["period"]] = record
        elif record.kind == "reopen":
            closed.pop(record.content["period"], None)
    for period, record in closed.items():
        theirs = completed(desk, record.content["end"])
        mine = {
            (profile, asset): Decimal(amount)
            for profile, asset, line, _, amount in record.content["lines"]
            if line == "closing"
        }
        differ = {key for key in mine.keys() | theirs.keys() if mine.get(key, 0) != theirs[key]}
        check(bool(differ) == (period in moved), f"{period}: {differ} moved, reported: {moved}")


def completed(desk: Desk, before: str) -> dict[tuple[str, str], Decimal]:
    """By profile and asset, what all transfers come to that the service completed ``before``."""
    found: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in [*at_the_service(desk).values(), *desk.vanished.values()]:
        if row["status"] == "COMPLETED" and row["updated_at"] < before:
            asset = row.get("balance_asset") or row["asset"]
            sign = 1 if row["direction"] == "CREDIT" else -1
            found[row["profile_id"], asset] += sign * Decimal(row["total"])
    return found


def reported(store: fl.Store, found: fl.reports.Report) -> None:
    """A report says what the judgement and the rows say of the moment that it names."""
    judged = fl.reconcile.judge(store, as_of=found.as_of)
    said, wanted = ((one.state, one.balances, one.breaks) for one in (found.verdict, judged))
    check(said == wanted, f"the report says {said}, the judgement {wanted}")
    if found.first is None:
        rows, counted = len(store.read("transfers", found.as_of)), found.transfers["count"].sum()
        check(counted == rows, f"the report counts {counted} transfers of {rows}")


def totals_noted(desk: Desk, contents: Sequence[Row]) -> None:
    """The records have, since the last pass over all transfers, how many there are of each month,
    type and asset, and what they come to."""
    noted: dict[tuple[str, ...], tuple[int, Decimal]] = {}
    for content in contents:
        for *key, count, total in content.get("control", {}).get("transfers", ()):
            noted[tuple(key)] = count, Decimal(total)
    there: dict[tuple[str, ...], tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for row in at_the_service(desk).values():
        by = row["created_at"][:7], row["type"], row["asset"]
        there[by] = there[by][0] + 1, there[by][1] + Decimal(row["total"])
    differ = {key for key in noted.keys() | there
              if noted.get(key, (0, 0)) != there.get(key, (0, 0))}  # fmt: skip
    check(not differ, f"{[(key, noted.get(key), there.get(key)) for key in differ]} is noted")


# ------------------------------------------------------------------------------ at the end


def at_the_end(desk: Desk) -> None:
    """Once all is quiet, everybody has started again and nothing fails any more."""
    # The service's own books.
    totals = desk.control.ledger()["totals"]
    check(not any(map(Decimal, totals.values())), f"the ledger sums to {totals}")

    if desk.lost:  # whoever restored it was stopped
        desk.busy = ["clerk"]
        with desk.client("clerk") as client:
            desk.people["clerk"].restore(client, with_journal=False)
    refused(desk)

    # Whatever was begun is ended: each payment is there once, and as its people were told.
    for name in ("payer", "auditor"):
        before = lines_of_journals(desk, name)
        with desk.client(name) as client:
            frame = fl.resume(client, say=desk.said.append)
        looked_at(desk, name, frame, before)
        each_line_is_so(desk, name, settled=True)
    person = desk.people["payer"]
    for wish in desk.wishes.values():
        if not wish.paid:
            with desk.client("payer") as client:
                person.pay(client, wish.number, wish.ref_id is not None)
    made = payments(desk)
    for wish in desk.wishes.values():
        count = made[str(wish.number)]
        check(count == 1, f"payment {wish.number} was made {count} times")
        check(len(wish.paid) == 1, f"payment {wish.number} was shown as {sorted(wish.paid)}")
    for row in at_the_service(desk).values():
        intent = (row.get("metadata") or {}).get("intent")
        amount = desk.wishes[int(intent)].amount if intent else row["amount"]
        check(row["amount"] == amount, f"{row['amount']} was paid instead of {amount}")
    moved = at_the_service(desk).values()
    deposits = (row["amount"] for row in moved if row["type"].endswith("_DEPOSIT"))
    funded = Counter(amount for amount in deposits if dec(amount) >= 10**6)
    check(max(funded.values(), default=0) <= 1, f"money was wired in twice: {funded}")
    check(len(made) == len(desk.wishes), f"payments nobody wished: {made.keys()}")

    for who in desk.people:
        left_open = [
            entry.ref_id for entry in journalled(desk, who)
            # what the service has no list of is not known, once its confirmation has expired
            if entry.state == "unknown" and entry.operation not in _NOT_LISTED
            and not any(f"ref_id={entry.ref_id!r} belongs to" in said for said in desk.said)
        ]  # fmt: skip
        check(not left_open, f"after fl.resume the journal of {who} still has {left_open} unknown")
    journals_keep(desk, "payer", "auditor")
    for who in ("payer", "auditor"):
        each_line_is_so(desk, who)
    bodies = [
        json.loads(body) for (body,) in desk.service.database.all("SELECT body FROM fiat_accounts")
    ]
    for number, ids in desk.accounts.items():
        there = [b["id"] for b in bodies if (b.get("metadata") or {}).get("account") == str(number)]
        check(len(there) <= 1, f"account {number} was registered {len(there)} times")
        check(ids <= set(there), f"account {number} was shown as {sorted(ids)}, there is {there}")

    asked_for = [
        json.loads(body) for table in ("fiat_deposit_instructions", "deposit_addresses")
        for (body,) in desk.service.database.all(f"SELECT body FROM {table}")
    ]  # fmt: skip
    there = defaultdict(set)
    for one in asked_for:
        there[(one.get("metadata") or {}).get("deposit", "")].add(one["id"])
    twice = {number: ids for number, ids in there.items() if number and len(ids) > 1}
    check(not twice, f"deposit instructions were made twice: {twice}")
    for number, ids in desk.instructions.items():
        right = there[str(number)]
        check(ids == right, f"deposit instructions {number} were shown as {ids}, not {right}")
    rules = [json.loads(body) for (body,) in desk.service.database.all("SELECT body FROM rules")]
    for number, ids in desk.rules.items():
        there = {rule["id"] for rule in rules if rule.get("nickname") == f"rule {number}"}
        check(len(there) <= 1, f"rule {number} was made {len(there)} times")
        check(ids <= there, f"rule {number} was shown as {sorted(ids)}, there is {there}")
    taken = [row for row in moved if str(row.get("ref_id")).startswith("taken-")]
    wrong = [row["type"] for row in taken if row["type"].endswith("_WITHDRAWAL")]
    check(not wrong, f"under a ref_id of an internal transfer there is a {wrong}")

    # The store is what the service has, once the last payment is through.
    Virtual.now_ns += 3600 * NS
    store = desk.store()
    desk.garbled = None
    with desk.client("clerk") as client:
        store.sync(client, full=True, progress=False)
        desk.people["clerk"].accept_gone(client)
        store.sync(client, full=True, progress=False)
        fl.Store(store.path).sync(client, progress=False)
    mine, theirs = held(store), at_the_service(desk)
    sound(desk, store)
    known = mine.keys() - desk.vanished.keys()
    check(known == theirs.keys(), f"not the same transfers: {known ^ theirs.keys()}")
    read = as_read(store)
    check(read == mine, f"read otherwise than the files have it: {_others(read, mine)}")
    for id_, row in theirs.items():
        wanted = (
            row["status"],
            *(dec(row[n]) for n in ("amount", "fee", "total")),
            moment(row["updated_at"]),
        )
        got = tuple(mine[id_][name] for name in COMPARED)
        check(got == wanted, f"transfer {id_} is {got} in the store, {wanted} at the service")
    kept(desk, mine)
    # (but for the note of a command, which its next run takes away)
    left = [path.name for path in store.path.rglob(".*.tmp") if path.parent.name != "runs"]
    check(not left, f"of runs that died days ago there is still {left}")
    events = {row[0] for row in desk.service.database.all("SELECT id FROM events")}
    stored = set(store.read("events", columns=["id"])["id"])
    check(stored == events, f"not the same events: {stored ^ events}")
    desk.facts.proved = desk.facts.rows
    found = verified(desk, store, all_known=True)
    if desk.planted and not desk.misled:
        names_planted(desk, found)

    # What was said to be done stays done.
    known_by_files = [one["content"] for one in recorded(desk)]
    read_now = [dict(record.content) for record in store.records()]
    check(read_now == known_by_files, "the records are read otherwise than the files have them")
    totals_noted(desk, known_by_files)
    closes = store.closes()
    for period in desk.facts.closed:
        states = set(closes[closes["period"] == period]["state"])
        check(states, f"the close of {period} is lost")
    for pin, rows in desk.facts.pinned.items():
        check(pinned(store, pin) == rows, f"{pin} is not what was closed")
    closings_tie(desk, store)
    for period in desk.facts.closed:
        states = set(closes[closes["period"] == period]["state"])
        check(desk.facts.reopened or "closed" in states, f"{period} is {states}")

    # The report of all is what the service's books say.
    if desk.facts.reported:
        report = fl.report(store)
        reported(store, report)
        rows = report.balances[["profile_id", "asset", "closing"]].itertuples(index=False)
        closing = {(str(profile), str(asset)): Decimal(amount) for profile, asset, amount in rows}
        books = completed(desk, "9999")
        off = {key for key in closing.keys() | books if closing.get(key, 0) != books[key]}
        check(not off, f"the report closes {off} with what is not in the service's books")

    moved_assets = {
        row["asset"] for row in theirs.values() if moment(row["created_at"]) >= BEGIN_NS
    }  # fmt: skip
    sometimes("more than one asset moved", len(moved_assets) > 1)
    moves_of = [row for row in theirs.values() if moment(row["created_at"]) >= BEGIN_NS
                and row["type"].startswith("INTERNAL")]  # fmt: skip
    sometimes("an internal transfer moved money between two profiles", moves_of)
    aside = store.set_aside()
    sometimes(
        "a row that was set aside was read later", len(aside) and (aside["state"] == "read").any()
    )
    rows_there = desk.bucket.rows(COMPARED)
    if rows_there:
        with desk.client("auditor") as client:
            desk.elsewhere("auditor").sync(client, full=True, progress=False)
        rows_there = desk.bucket.rows(COMPARED)
        off = _others(
            {i: r for i, r in rows_there.items() if i in theirs}, {i: mine[i] for i in theirs}
        )
        check(not off, f"the store in the bucket has {off} otherwise than the one here")


def nothing_is_left(desk: Desk) -> None:
    """No secret anywhere, no whole account number where people look, no file that is open."""
    each_word_is_so(desk)
    for who in ("payer", "auditor"):
        each_line_is_so(desk, who)
    without_times = (line.split(maxsplit=1)[1] for line in desk.trace)  # some hold any number
    said_all = "\n".join([*without_times, *desk.said])
    for (body,) in desk.service.database.all("SELECT body FROM fiat_accounts"):
        wire = json.loads(body)["fiat_network_instructions"].get("wire") or {}
        number = wire.get("account_number")
        check(number is None or number not in said_all, "a whole account number was said")
    # (a number may stand in the middle of a time)
    secrets = re.compile("|".join(rf"(?<!\d){re.escape(one)}(?!\d)" for one in desk.secrets))
    check(not secrets.search(said_all), "a secret was said")
    for path in desk.root.rglob("*"):
        if path.is_file():
            found = secrets.search(path.read_text(encoding="latin-1"))
            check(not found, f"a secret is in {path.name}")

    gc.collect()
    kept_open = open_files(desk)
    check(not kept_open, f"still open: {kept_open}")


# ------------------------------------------------------------------------------ reading


def held(store: fl.Store, pin: str | None = None) -> dict[str, Row]:
    """The store's transfers by their ids, as its files have them; those of a ``pin``, as an analyst
    reads them."""
    if pin is None:
        assert isinstance(store.path, Path)
        return rows_of_folder(store.path, COMPARED)
    return as_read(store, pin)


def as_read(store: fl.Store, pin: str | None = None) -> dict[str, Row]:
    """As an analyst reads them."""
    frame = store.read("transfers", columns=["id", *COMPARED], pin=pin)
    moments = frame["updated_at"].astype("int64")
    columns = (frame[name] if name != "updated_at" else moments for name in COMPARED)
    return {
        id_: dict(zip(COMPARED, values, strict=True))
        for id_, *values in zip(frame["id"], *columns, strict=True)
    }


def _others(some: dict[str, Row], others: dict[str, Row]) -> list[str]:
    return sorted(id_ for id_ in some.keys() | others if some.get(id_) != others.get(id_))


def moment(text: str) -> int:
    return fl.base.values.Instant.parse(text).ns


def dec(text: str) -> Any:
    return fl.base.values.Amount(text)
