"""Frames in, frames out: balances, reconciliation, fees, flows and checks, exact to 18 decimals.

Every function takes transfers as a pandas DataFrame, ``pyarrow.Table``, Polars frame or DuckDB
relation, leaves it untouched, and returns the same kind of frame. Money that is not exact (a float
column), a missing column and a status or direction nobody knows are errors
(:class:`fundlab.errors.AnalysisError`); a sum beyond 20 integer digits is an ``OverflowError``.
"""
