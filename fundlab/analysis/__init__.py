"""Frames in, frames out: balances, reconciliation, fees, flows, events and checks, exact to 18
decimals.

Every function takes transfers as a pandas DataFrame, ``pyarrow.Table``, Polars frame, DuckDB
relation, Spark DataFrame or ``Store``, leaves it untouched, and returns the same kind of frame (of
a store, a DuckDB relation, of which ``fl.sql("from found", found=found)`` makes a frame, and its
own ``.df()`` floats): lazy in, lazy out. A Polars ``LazyFrame`` is collected at once, and its
result only called lazy. Where the frame lives is where it is computed: in-memory frames on a DuckDB
of the process's own, without being copied; a store on DuckDB within a memory limit
(``store.scan("transfers", memory_limit="2GB")`` sets another); a DuckDB relation on its connection;
a Spark frame, as ``store.scan("transfers", spark=session)`` gives it, on its cluster.

Money that is not exact (a float column) or does not fit, a missing column and a status or direction
nobody knows are errors (:class:`fundlab.errors.AnalysisError`). A sum beyond 20 integer digits is
an ``OverflowError``; where the result is lazy, it is DuckDB's or Spark's own out-of-range error,
raised when it is fetched. A sum may also overflow on the way, in an order of rows that nobody
chose, though the end of it would fit: it is refused, never wrong.

The examples of each analysis are about these five transfers:

>>> import pandas as pd
>>> import fundlab as fl
>>> days = pd.date_range("2026-10-01 09:00", periods=5, freq="D", tz="UTC")
>>> transfers = pd.DataFrame(
...     {
...         "id": ["t1", "t2", "t3", "t4", "t5"],
...         "profile_id": ["main", "main", "main", "spare", "main"],
...         "type": ["WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "INTERNAL_TRANSFER_DEBIT",
...                  "INTERNAL_TRANSFER_CREDIT", "WIRE_WITHDRAWAL"],
...         "direction": ["CREDIT", "DEBIT", "DEBIT", "CREDIT", "DEBIT"],
...         "status": ["COMPLETED", "COMPLETED", "COMPLETED", "COMPLETED", "PENDING"],
...         "asset": "USD",
...         "amount": pd.array(["1000", "200", "60", "60", "75.50"], dtype="decimal"),
...         "fee": pd.array(["0", "25", "0", "0", "25"], dtype="decimal"),
...         "total": pd.array(["1000", "225", "60", "60", "100.50"], dtype="decimal"),
...         "created_at": days,
...         "updated_at": days + pd.Timedelta("30min"),
...         "group_id": [None, None, "g1", "g1", None],
...         "fiat_account_id": [None, "acme", None, None, "acme"],
...     }
... )
"""
