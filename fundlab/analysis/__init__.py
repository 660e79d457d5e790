"""Frames in, frames out: balances, reconciliation, fees, flows, events and checks, exact to 18
decimals.

Every function takes transfers as a pandas DataFrame, ``pyarrow.Table``, Polars frame, DuckDB
relation, Spark DataFrame or ``Store``, leaves it untouched, and returns the same kind of frame (of
a store, a DuckDB relation): lazy in, lazy out. Where the frame lives is where it is computed. Money
that is not exact (a float column), a missing column and a status or direction nobody knows are
errors (:class:`fundlab.errors.AnalysisError`); a sum beyond 20 integer digits is an
``OverflowError``.
"""
