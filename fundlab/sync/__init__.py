"""Service → store: ``run.py`` is one sync, ``fetching.py`` what it asks for."""

from fundlab.sync.run import SyncResult, TableSync, sync

__all__ = ["SyncResult", "TableSync", "sync"]
