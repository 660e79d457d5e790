"""The tables on one page of documentation: every column, its types and its meaning.

``python -m fundlab.tables.document > notebooks/tables.md`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fundlab.models.resources import MEANINGS
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
        "Ids of the service that are UUIDs are in small letters, however they came: they have no\n"
        "case. `ref_id`, `memo` and what is kept as JSON stay as they came.\n"
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
