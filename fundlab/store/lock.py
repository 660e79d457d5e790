"""Who may write: one run at a time, by the lock of a file that the kernel releases when its run
ends, however that ends. Between machines the manifest decides (`fundlab.store.manifests`)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from fundlab.base.atomic_files import try_lock
from fundlab.base.errors import StoreError, StoreLocked
from fundlab.store import disk
from fundlab.store.remote import RemotePath, StorePath

LOCK: Final = ".lock"
_NO_LOCKS: Final = (
    errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL,
    errno.EBADF,  # NFS locks only what is open for writing, which no folder is
)  # fmt: skip


@contextmanager
def lock_store(store: StorePath) -> Iterator[Callable[[], None]]:
    """Hold the store at ``store``, on this machine, for writing.

    Gives a check to make before anything is published: it raises ``StoreError`` where the lock was
    taken away meanwhile. Raises ``StoreLocked`` at once while another run holds it, named by its
    process.
    """
    folder = disk.own_folder(store)
    if isinstance(store, RemotePath):  # a folder among this user's
        with disk.named(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    else:
        disk.make_folder(folder)
    path = folder / LOCK
    disk.refuse_link(path)

    def holder() -> str:
        file.seek(0)
        found = file.read().strip() or "unknown"
        return f"{store} is held by another run (process {found}); wait for it"

    def check_held() -> None:
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(file.fileno())):
            raise StoreError(
                f"{path} was taken away while this run held it, and another run may have "
                "begun: nothing was published; run it again"
            )

    with ExitStack() as stack:
        with disk.named(path):
            file = stack.enter_context(
                open(path, "a+", encoding="utf-8",
                     opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666))
            )  # fmt: skip
            stack.enter_context(locked(file.fileno(), path, holder))
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        yield check_held


@contextmanager
def locked(descriptor: int, place: Path, busy: Callable[[], str]) -> Iterator[None]:
    """Hold the lock of an open file or folder, ``place``.

    Raises ``StoreLocked`` at once, with the text ``busy`` gives, while another run holds it, and
    ``StoreError`` where the filesystem has no locks.
    """
    with ExitStack() as stack:
        try:
            free = stack.enter_context(try_lock(descriptor))
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            raise StoreError(
                f"{place} cannot be locked: this filesystem has no locks ({error.strerror}), so "
                "nothing would keep two runs apart; use a disk that has them"
            ) from error
        if not free:
            raise StoreLocked(busy())
        yield
