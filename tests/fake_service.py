"""A funding service in a few lines: lists with keyset cursors over plain records, and balances.

What it honours can be narrowed, and a hook sees every call before it is answered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from amounts import exactly

from fundlab.base.errors import NotFound, ValidationFailed
from fundlab.models import ProfileBalance
from fundlab.store.parts import read_footer


def rewrite(path: Path, table: pa.Table) -> Path:
    """``table`` in place of the rows of a part or base; its row groups are of the same sizes, and
    the manifest names it."""
    header = json.loads(pq.read_metadata(path).metadata[b"fundlab"])
    path.unlink()
    with pq.ParquetWriter(path, table.schema, write_page_checksum=True) as writer:
        start = 0
        for rows, _, _ in header["row_groups"]:
            writer.write_table(table.slice(start, rows))
            start += rows
        writer.add_key_value_metadata({"fundlab": json.dumps(header)})
    made = path.rename(path.with_name(f"{path.name[:14]}{read_footer(path)[1]}.parquet"))
    data = made.read_bytes()
    entry = [made.name, len(data), hashlib.sha256(data).hexdigest()]

    def name_it(content: dict[str, Any]) -> None:
        files = content["files"][path.parent.name]
        files[[name for name, *_ in files].index(path.name)] = entry

    forge_manifest(path.parents[1], name_it)
    return made


def newest_manifest(store: Path) -> Path:
    return max((store / "manifests").glob("*.json"))


def forge_manifest(store: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the newest manifest with other content, and ``head``, so that their hashes are right:
    with nothing but JSON and SHA-256, as somebody would who wants to deceive."""
    path = newest_manifest(store)
    content = json.loads(path.read_bytes())["manifest"]
    change(content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    whole = {"manifest": content, "sha256": digest}
    path.write_text(json.dumps(whole, sort_keys=True, separators=(",", ":")))
    (store / "head").write_text(json.dumps([content["number"], digest]))


FILTERS = {"ids": "id", "profile_ids": "profile_id", "statuses": "status", "type": "type"}
ITEMS = {
    "list_transfers": "items",
    "list_fiat_accounts": "items",
    "list_fiat_deposit_instructions": "items",
    "list_events": "events",
    "list_crypto_destination_addresses": "addresses",
}


def moment(seconds: float, nanoseconds: int = 0) -> str:
    """A time of 2026-03-01, ``seconds`` after midnight."""
    whole = int(seconds)
    clock = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"2026-03-01T{clock}.{nanoseconds:09d}Z"


def transfer(number: int, **members: Any) -> dict[str, Any]:
    """A completed deposit of 10.50 USD, ``number`` seconds after midnight."""
    created = members.get("created_at", moment(number))
    return {
        "id": f"t-{number:06d}",
        "profile_id": "p-1",
        "customer_id": "c-1",
        "amount": "10.50",
        "fee": "0",
        "total": "10.50",
        "asset": "USD",
        "direction": "CREDIT",
        "type": "WIRE_DEPOSIT",
        "status": "COMPLETED",
        "created_at": created,
        "updated_at": created,
        **members,
    }


def withdrawal(number: int, **members: Any) -> dict[str, Any]:
    return transfer(number, direction="DEBIT", type="WIRE_WITHDRAWAL", status="PENDING", **members)


@dataclass
class FakeService:
    """Answers as a client does. ``honours`` are the parameters it heeds besides the interface's."""

    transfers: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    addresses: list[dict[str, Any]] = field(default_factory=list)
    fiat_accounts: list[dict[str, Any]] = field(default_factory=list)
    deposit_instructions: list[dict[str, Any]] = field(default_factory=list)
    honours: set[str] = field(default_factory=lambda: {"created_at", "updated_at", "ids"})
    strict: bool = False  # 400 for what it does not honour, instead of ignoring it
    complete: bool = False  # else there may be more rows, which are found by their ids only
    largest_page: int = 1000
    hook: Callable[[str, dict[str, str]], None] = lambda operation, params: None
    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    base_url: str = "http://127.0.0.1:1"
    client_id: str = "client-1"
    transport: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(skew_s=0.0))

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        one = dict(params)
        self.calls.append((operation, one))
        self.hook(operation, one)
        rows = self._filtered(self._rows(operation), params)
        by = "created_at"
        if one.get("order_by") == "UPDATED_AT" and "updated_at" in self.honours:
            by = "updated_at"
        rows.sort(key=lambda row: (row[by], row["id"]), reverse=one["order"] == "DESC")
        if "page_cursor" in one:
            last = tuple(json.loads(one["page_cursor"]))
            after = [(row[by], row["id"]) for row in rows]
            rows = [
                row
                for row, key in zip(rows, after, strict=True)
                if (key < last if one["order"] == "DESC" else key > last)
            ]
        size = min(int(one["limit"]), self.largest_page)
        cursor = ""
        if len(rows) > size:
            cursor = json.dumps([rows[size - 1][by], rows[size - 1]["id"]])
        body = {ITEMS[operation]: rows[:size], "next_page_cursor": cursor}
        return json.dumps(body).encode()

    def get_transfer(self, transfer_id: str) -> dict[str, Any]:
        return self._get("get_transfer", self.transfers, transfer_id)

    def get_fiat_account(self, fiat_account_id: str) -> dict[str, Any]:
        return self._get("get_fiat_account", self.fiat_accounts, fiat_account_id)

    def get_fiat_deposit_instructions(self, instructions_id: str) -> dict[str, Any]:
        return self._get(
            "get_fiat_deposit_instructions", self.deposit_instructions, instructions_id
        )

    def _get(self, operation: str, rows: list[dict[str, Any]], id_: str) -> dict[str, Any]:
        self.calls.append((operation, {"id": id_}))
        self.hook(operation, {"id": id_})
        found = next((row for row in rows if row["id"] == id_), None)
        if found is None and not self.complete:
            return {"id": id_}
        if found is None:
            raise NotFound(404, "Not Found")
        return found

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        self.calls.append(("get_profile_balance", {"profile_id": profile_id, "asset": asset}))
        self.hook("get_profile_balance", {"profile_id": profile_id, "asset": asset})
        mine = [row for row in self.transfers if row["profile_id"] == profile_id]
        mine = [row for row in mine if row.get("balance_asset", row["asset"]) == asset]
        if not mine:
            raise NotFound(404, "Not Found")
        with exactly():
            available = sum((change(row) for row in mine), Decimal(0))
        return ProfileBalance.model_validate(
            {"asset": asset, "available": f"{available:f}", "trading": "0"}
        )

    def _rows(self, operation: str) -> list[dict[str, Any]]:
        return list(
            {
                "list_transfers": self.transfers,
                "list_events": self.events,
                "list_crypto_destination_addresses": self.addresses,
                "list_fiat_accounts": self.fiat_accounts,
                "list_fiat_deposit_instructions": self.deposit_instructions,
            }[operation]
        )

    def _filtered(
        self, rows: list[dict[str, Any]], params: Sequence[tuple[str, str]]
    ) -> list[dict[str, Any]]:
        for name in {name for name, _ in params}:
            values = [value for given, value in params if given == name]
            stem, _, comparison = name.partition(".")
            if not comparison and name not in FILTERS:
                continue
            if stem not in self.honours:
                if self.strict:
                    raise ValidationFailed(400, "Bad Request", f"unknown parameter {name}")
                continue
            if comparison:
                bound = values[0]
                rows = [
                    row
                    for row in rows
                    if (row[stem] >= bound if comparison == "gte" else row[stem] < bound)
                ]
            else:
                rows = [row for row in rows if row[FILTERS[name]] in values]
        return rows


def change(row: dict[str, Any]) -> Decimal:
    """What a transfer does to the available balance."""
    if row["direction"] == "CREDIT":
        return Decimal(row["total"]) if row["status"] == "COMPLETED" else Decimal(0)
    return Decimal(0) if row["status"] == "FAILED" else Decimal(row["total"]).copy_negate()
