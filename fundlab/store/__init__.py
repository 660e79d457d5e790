"""The Parquet store: ``TableStore(path)``, and what it is made of.

``store.py`` is the door; ``fl.Store``, with sync and journals, stands above it (``facade.py``).
Below it: ``parts.py`` (one file), ``snapshot.py`` (which files there are and which rows are current
at a moment), ``changes.py`` (what is new), ``compaction.py``, ``proof.py`` (verify), ``scan.py``
(lazily, with DuckDB or Spark) and ``plain_files.py`` (files for other tools). All of them reach
their files through ``disk.py``, on this machine or elsewhere (``remote.py``).
"""

from fundlab.store.store import TableStore

__all__ = ["TableStore"]
