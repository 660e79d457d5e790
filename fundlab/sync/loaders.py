"""Service → typed DataFrame: one function a table, every page, nothing lost and nothing twice.

Each takes the filters of its list operation by name (``profile_ids=[…]``, ``statuses="PENDING"``,
``updated_at_gte=…``) beside ``since`` (inclusive) and ``until`` (exclusive) on ``created_at``:
ISO text, ``datetime``, ``Timestamp``, ``date`` or ``datetime64``. A filter by values takes one text
or any iterable of them, asked for in hundreds; of an empty one come no rows. Rows that do not show
what a filter is about are kept, with a warning. Rows come by ``created_at``, ties by ``id``
(``order="DESC"``: the other way round). A row that cannot be read stops a loader, as a sum over
the others would be wrong in silence; with ``invalid="set_aside"`` it is left out with a warning,
and ``frame.attrs["set_aside"]`` has its ``table``, ``id``, ``raw`` JSON and the ``reason``. With
``workers`` above 1, disjoint windows of ``created_at`` are read side by side where the service
honours them; the rows are the same.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeVar, Unpack

import pyarrow as pa

from fundlab.base.arrow import AMOUNT_TYPE, groups
from fundlab.base.errors import (
    ContradictionWarning,
    DataError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ProtocolError,
    ScopeMissing,
    SetAsideWarning,
    a_type,
    number_of,
)
from fundlab.base.progress import expect, progress_bar
from fundlab.base.threads import gathered
from fundlab.base.values import Instant, id_text, span_ns
from fundlab.client.arguments import (
    AddressLoad,
    EventLoad,
    FiatAccountLoad,
    Invalid,
    Texts,
    Time,
    TransferLoad,
    connected,
    spelled_out,
)
from fundlab.client.pages import Asked, texts, warn_of_filters, whole_number
from fundlab.sync.table_pages import ask_table, contradicted_ids, fetch
from fundlab.tables.decode import InvalidRow
from fundlab.tables.expand import expand as expanded
from fundlab.tables.frames import to_arrow, to_frame
from fundlab.tables.schema import INSTANT_TYPE, TABLES

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.client.client import Client

T = TypeVar("T")
Pair = tuple[str, str]
BALANCES: Final = TABLES["balances"]


@spelled_out(TransferLoad)
def load_transfers(client: Client, **given: Unpack[TransferLoad]) -> pd.DataFrame:
    """Transfers (§2.4, §4.5) as a typed DataFrame, one row each.

    Raises ``InvalidRequest`` for a filter the operation does not take, ``DataError`` for a
    malformed record, ``ServiceError`` and ``NetworkError`` as the client does.

    >>> fl.load_transfers(client, since="2026-10-01", type="WIRE_DEPOSIT").dtypes["total"]
    DecimalDtype()
    >>> len(fl.load_transfers(client))
    50
    """
    return _load("transfers", client, **given)


@spelled_out(EventLoad)
def load_events(
    client: Client, *, expand: bool = False, **given: Unpack[EventLoad]
) -> pd.DataFrame:
    """Events (§2.10, §6). Otherwise as load_transfers.

    ``object`` is the payload's JSON text; with ``expand`` it is a column for each of its members
    (``object_id``, ``object_status`` …; see ``fundlab.tables.expand``).

    >>> events = fl.load_events(client, type="identity.approved", expand=True)
    >>> events["object_new_summary_status"].unique().tolist()
    ['APPROVED']
    """
    frame = _load("events", client, **given)
    return expanded(frame, "object") if expand else frame


@spelled_out(AddressLoad)
def load_addresses(client: Client, **given: Unpack[AddressLoad]) -> pd.DataFrame:
    """Crypto destination addresses (§2.8, §4.15); without ``identity_id`` first-party ones only.

    >>> fl.load_addresses(client, crypto_networks=["ETHEREUM"])["status"].unique().tolist()
    ['APPROVED']
    """
    return _load("addresses", client, **given)


@spelled_out(FiatAccountLoad)
def load_fiat_accounts(client: Client, **given: Unpack[FiatAccountLoad]) -> pd.DataFrame:
    """Fiat accounts (§2.3, §4.11), account numbers masked as the list masks them.

    >>> fl.load_fiat_accounts(client)["status"].unique().tolist()
    ['APPROVED', 'REJECTED', 'PENDING']
    """
    return _load("fiat_accounts", client, **given)


@spelled_out(FiatAccountLoad)
def load_deposit_instructions(client: Client, **given: Unpack[FiatAccountLoad]) -> pd.DataFrame:
    """Fiat deposit instructions (§2.2, §4.3).

    >>> fl.load_deposit_instructions(client)["status"].unique().tolist()
    ['VALID']
    """
    return _load("deposit_instructions", client, **given)


def load_balances(
    client: Client,
    profile_ids: Texts | None = None,
    assets: Texts | None = None,
    *,
    transfers: pd.DataFrame | None = None,
    workers: SupportsIndex = 1,
    progress: bool | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> pd.DataFrame:
    """What profiles hold now (§2.5): ``profile_id``, ``asset``, ``available``, ``trading`` and
    ``observed_at``, the moment the answer arrived by this machine's clock.

    The interface lists no profiles. With both ``profile_ids`` and ``assets`` every combination is
    asked for; else the combinations that occur in ``transfers``, or, where none are given, in all
    transfers of the service, which are then paged through. A combination the service does not
    know (404), or does not show to this credential (403), is left out.

    A balance may move while others are read. ``Store.sync`` reads those again, together with the
    transfers that moved them, so that the two belong together.

    >>> fl.load_balances(client, assets=["USD"])[["asset", "available", "trading"]].head(2)
      asset   available  trading
    0   USD  4356108.33        0
    1   USD  4559466.78        0
    """
    connected(client)
    count = whole_number(workers, "workers", 1)
    profiles, names = (
        None if value is None else texts(value, f"load_balances: {name}")
        for name, value in (("profile_ids", profile_ids), ("assets", assets))
    )
    found: set[Pair] = set()
    if profiles is not None and names is not None:
        each = {one.casefold(): one for one in reversed(profiles)}  # ids have no case
        codes = dict.fromkeys(map(str.upper, names))
        pairs = [(profile, asset) for profile in reversed(each.values()) for asset in codes]
    else:
        if transfers is not None:
            names_of = getattr(transfers, "columns", ())
            if isinstance(transfers, pa.Table) or not {"profile_id", "asset"} <= {*names_of}:
                raise InvalidRequest(
                    f"transfers is {a_type(transfers)}; give a pandas DataFrame that has "
                    "profile_id and asset"
                )
            shown = [n for n in ("profile_id", "asset", "balance_asset") if n in names_of]
            found = pairs_of(to_arrow(transfers[shown], "transfers"))
        else:
            asked = ask_table(TABLES["transfers"], {"profile_ids": profiles}, "load_balances")
            for rows in _pages(client, asked, count, "finding profiles", progress, 3):
                found |= pairs_of(rows)
        wanted = [None if v is None else {one.casefold() for one in v} for v in (profiles, names)]
        pairs = sorted(
            pair
            for pair in found
            if all(w is None or one.casefold() in w for one, w in zip(pair, wanted, strict=True))
        )
    with progress_bar(len(pairs), "balances", "balances", progress) as bar:
        rows, _ = observe_balances(client, pairs, workers=count, clock=clock, step=bar.update)
    return to_frame(BALANCES.in_order(rows).drop_columns(["extra"]))


def observe_balances(
    client: Client,
    pairs: Iterable[Pair],
    *,
    workers: int,
    clock: Callable[[], int],
    step: Callable[[], object],
    aside: dict[str, InvalidRow] | None = None,
) -> tuple[pa.Table, dict[Pair, int]]:
    """The balance of each (profile, asset) as an Arrow table; and those that the service does not
    have (404) or show (403), with that status. With ``aside`` answers that cannot be read go there,
    by key, and have the status 200. See ``load_balances``."""
    unanswered: dict[Pair, int] = {}

    def observe(pair: Pair) -> dict[str, Any] | None:
        profile_id, asset = pair
        try:
            found = ask_by_id(
                lambda id_: client.get_profile_balance(profile_id=id_, asset=asset), profile_id
            )
        except ScopeMissing:
            raise  # that is not about this profile
        except (NotFound, PermissionDenied) as error:
            unanswered[pair] = error.status
            return None
        except DataError as error:
            if aside is None or error.raw is None:
                raise
            row = InvalidRow("balances", " ".join(pair), error.raw, error.reason)
            aside[row.key], unanswered[pair] = row, 200
            return None
        finally:
            step()
        if found.asset != asset:
            raise ProtocolError(f"balances: asked for {asset!r}, the answer is of {found.asset!r}")
        return {
            "profile_id": id_text(profile_id),
            "asset": asset,
            "available": found.available.text,
            "trading": found.trading.text,
            "observed_at": clock(),
            "extra": json.dumps(found.model_extra) if found.model_extra else None,
        }

    rows = [row for row in gathered(observe, pairs, workers) if row is not None]
    columns = []
    for column in BALANCES.columns:
        values = [row[column.name] for row in rows]
        if column.type == AMOUNT_TYPE:
            columns.append(pa.array(values, pa.string()).cast(AMOUNT_TYPE))
        elif column.type == INSTANT_TYPE:
            columns.append(pa.array(values, pa.int64()).cast(INSTANT_TYPE))
        else:
            columns.append(pa.array(values, column.type))
    return pa.Table.from_arrays(columns, schema=BALANCES.schema), unanswered


def ask_by_id(get: Callable[[str], T], id_: str) -> T:
    """What ``get`` gives of ``id_``. Tables hold UUIDs in small letters; one that the service does
    not have so is asked for in capitals, as it may have written it."""
    try:
        return get(id_)
    except NotFound:
        capitals = id_.upper()
        if capitals == id_ or id_text(capitals) != id_:
            raise
        return get(capitals)


def pairs_of(transfers: pa.Table) -> set[Pair]:
    """Every profile and asset whose balance the transfers may have changed."""
    pairs: set[Pair] = set()
    for name in ("asset", "balance_asset"):
        both = ["profile_id", name]
        pairs |= {(profile, asset) for (profile, asset), _ in groups(transfers.select(both), both)}
    return {(profile, asset) for profile, asset in pairs if profile and asset}


def _load(
    name: str,
    client: Client,
    /,
    *,
    since: Time | None = None,
    until: Time | None = None,
    workers: SupportsIndex = 1,
    progress: bool | None = None,
    limit: SupportsIndex | None = None,
    invalid: Invalid = "stop",
    **filters: Any,
) -> pd.DataFrame:
    if invalid not in ("stop", "set_aside"):
        raise InvalidRequest(f"load_{name}: invalid={invalid!r}: give 'stop' or 'set_aside'")
    table, label, given = TABLES[name], f"load_{name}", {**filters, "limit": limit}
    count = whole_number(workers, "workers", 1)
    if "page_cursor" in filters:
        raise InvalidRequest(
            f"{label}: page_cursor is not accepted, because all pages are read; client.fetch_page "
            "reads a single one"
        )
    begins, ends = span_ns(since, until)
    for parameter, at, filter_ in (
        ("since", begins, "created_at_gte"),
        ("until", ends, "created_at_lt"),
    ):
        if at is not None:
            if filters.get(filter_) is not None:
                raise InvalidRequest(f"give either {parameter} or {filter_}, not both")
            given[filter_] = Instant.from_ns(at)
    own = ("since", "until", "workers", "progress", "invalid")
    asked = ask_table(table, given, label, own)
    aside: dict[str, InvalidRow] | None = {} if invalid == "set_aside" else None
    found = [table.schema.empty_table(), *_pages(client, asked, count, name, progress, 4, aside)]
    rows = table.in_order(table.distinct(pa.concat_tables(found)))
    if asked.filters["order"] == "DESC":
        rows = rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
    frame = to_frame(rows)
    if aside is not None:
        frame.attrs["set_aside"] = [asdict(row) for row in aside.values()]
    if aside:
        first = next(iter(aside.values()))
        warnings.warn(
            f"{label}: {number_of(len(aside), 'row')} cannot be read and left out, such as "
            f"{first.id or 'one without an id'} ({first.reason}): see "
            "frame.attrs['set_aside']",
            SetAsideWarning,
            stacklevel=3,
        )
    return frame


def _pages(
    client: Client,
    asked: Asked,
    workers: int,
    title: str,
    progress: bool | None,
    stacklevel: int,
    aside: dict[str, InvalidRow] | None = None,
) -> Iterator[pa.Table]:
    """The rows of every page, shown as progress; at the end, what became of the filters. With
    ``aside`` what cannot be read goes there."""
    ignored, unchecked = set[str](), set[str]()
    with progress_bar(desc=title, enabled=progress) as bar:
        for page in fetch(connected(client), asked, workers, set_aside=aside is not None):
            yield page.rows
            if aside is not None:
                aside |= {row.key: row for row in page.invalid}
            ignored |= page.ignored
            unchecked |= page.unchecked
            if twice := contradicted_ids(page):
                warnings.warn(
                    f"{asked.label}: a page has {', '.join(twice[:5])} more than once, with other "
                    "members each time; the newest is taken, by updated_at where it says",
                    ContradictionWarning,
                    stacklevel=stacklevel,
                )
            expect(bar, page.expected)
            bar.update(page.rows.num_rows)
    warn_of_filters(asked.label, ignored, unchecked, stacklevel=stacklevel)  # at the loader's call
