"""Models → Arrow schemas; page bytes → Arrow tables → typed DataFrames, and back."""

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.tables.decode import Page, decode_page
from fundlab.tables.expand import expand, maps
from fundlab.tables.frames import to_arrow, to_frame
from fundlab.tables.schema import (
    EXTRA,
    INSTANT_TYPE,
    SCHEMA_VERSION,
    TABLES,
    BalanceObservation,
    Column,
    Table,
    find_table,
)

__all__ = [
    "AMOUNT_TYPE",
    "EXTRA",
    "INSTANT_TYPE",
    "SCHEMA_VERSION",
    "TABLES",
    "BalanceObservation",
    "Column",
    "Page",
    "Table",
    "decode_page",
    "expand",
    "find_table",
    "maps",
    "to_arrow",
    "to_frame",
]
