"""Service → store: one sync, from what is asked for to what is published."""

from fundlab.sync.run import SyncResult, TableSync, sync

__all__ = ["SyncResult", "TableSync", "sync"]
