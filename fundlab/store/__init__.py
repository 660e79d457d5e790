"""The tables' files: immutable Parquet parts, on this machine or elsewhere.

``parts`` is one file, ``snapshot`` which files there are and which rows are current at a moment,
``changes`` what is new, ``compaction``, ``scan`` (lazily, with DuckDB or Spark) and ``publishing``
(open formats for other engines). ``manifests`` says which files count, ``lock`` who may write. All
reach their files through ``disk``, on this machine or elsewhere (``remote``). What is kept about a
store, and the store as an object, is in `fundlab.evidence`.
"""
