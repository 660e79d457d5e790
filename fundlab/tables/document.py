"""The tables on one page of documentation: every column, its types and its meaning.

``python -m fundlab.tables.document > notebooks/tables.md`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fundlab.tables.schema import TABLES, Kind

FRAME_TYPES: Final[Mapping[Kind, str]] = {
    "text": "string",
    "amount": "decimal",
    "instant": "datetime64[ns, UTC]",
    "enum": "category",
    "flag": "boolean",
    "count": "Int64",
    "json": "string",
}
MEANINGS: Final[Mapping[str, str]] = {
    "account_id": "account of an end user, in third-party integrations",
    "address": "the address on the network",
    "amount": "amount sent, in `asset`",
    "asset": "asset of the row",
    "auto_conversion": "the conversion the transfer took part in, as JSON",
    "available": "what can be spent",
    "balance_asset": "asset whose balance changed, where a conversion makes it another",
    "bookmarked": "whether the address is bookmarked",
    "created_at": "when the service created the record",
    "crypto_network": "network of a crypto transfer or address",
    "crypto_tx_hash": "hash on the network",
    "crypto_tx_index": "index or address of the output",
    "customer_id": "the customer",
    "destination_address": "where a crypto withdrawal went",
    "direction": "whether the balance was credited or debited",
    "extra": "members the interface does not list, as JSON",
    "fee": "fee, in `asset`",
    "fiat_account_id": "target of a fiat withdrawal",
    "fiat_account_owner": "the institution or person, as JSON",
    "fiat_network_instructions": "banking details, as JSON",
    "group_id": "what links the two halves of an internal transfer",
    "id": "the key",
    "identity_id": "the end user",
    "is_test": "whether it is a test event",
    "memo": "memo sent with the transfer",
    "memo_id": "what a deposit must quote",
    "metadata": "client's own keys and values, as JSON",
    "nickname": "name given to the address",
    "notional_value": "USD value of amount plus fee, for crypto transfers",
    "object": "payload of the event, as JSON",
    "object_type": "what kind of payload it is",
    "observed_at": "when the balance was read, by this machine's clock",
    "profile_id": "profile whose balance it is",
    "ref_id": "client's own idempotence id",
    "secondary_status": "finer explanation of the status, as JSON",
    "status": "state",
    "status_details": "more on some errors, as JSON",
    "total": "change of the balance without its sign: amount ∓ fee",
    "trading": "what is held for trading",
    "type": "kind",
    "undelivered_webhooks": "webhooks that did not arrive",
    "updated_at": "when the service last changed the record",
}

SETTLED: Final = """
The interface does not say when a transfer settled. `store.read("transfers", settled=True)` adds
what the store knows of it, in two columns that are no part of the table; reports count a transfer
in the period in which it settled, unless they are asked for `basis="created"`.

| column | DataFrame | meaning |
|---|---|---|
| `settled_at` | datetime64[ns, UTC] | when a completed transfer settled; missing for the others |
| `settled_from` | string | what says so: `event`, `updated_at` or `seen` |

That is its event of completion where that was synced; else `updated_at` of its first version that
is completed; else when that version was first seen.
"""


def document() -> str:
    """The page, as Markdown."""
    lines = [
        "# Tables\n\n"
        "Every table that loads and the store give, generated from the models. Any value may be\n"
        "missing except those of the key. Enumerations keep values the interface does not list.\n"
    ]
    for table in TABLES.values():
        key = ", ".join(f"`{name}`" for name in table.key)
        lines += [f"## {table.name}\n", f"Key: {key}.\n"]
        lines += ["| column | DataFrame | Arrow | meaning |", "|---|---|---|---|"]
        for column in table.columns:
            meaning = MEANINGS[column.name]
            if column.members:
                meaning += ": " + ", ".join(f"`{member}`" for member in column.members[:4])
            if len(column.members) > 4:
                meaning += f" and {len(column.members) - 4} more"
            kind = FRAME_TYPES[column.kind]
            lines.append(f"| `{column.name}` | {kind} | {column.type} | {meaning} |")
        if table.name == "transfers":
            lines.append(SETTLED.rstrip())
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(), end="")  # noqa: T201 - what it is for
