"""Who publishes next to a store elsewhere: decided by its storage, as no lock reaches two machines.

Every publication takes the next number first: it writes ``commits/0000/00000042.json``, which the
storage lets happen only where nothing has that name. Of two runs one gets the number; the other is
told, and has published nothing. What is published was put into ``commits/waiting`` before, and goes
from there to its place in one step, which whoever comes next makes up for a run that died between
the two. So readers need not know of any of this, and no clock and no lease decides anything.

A run knows which number was the last when it began: all it publishes follows from what it saw then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fundlab.base.errors import StoreDamaged, StoreError, StoreLocked
from fundlab.store.records import canonical
from fundlab.store.remote import RemotePath

COMMITS: Final = "commits"
_WAITING: Final = "waiting"
_IN_FOLDER: Final = 1_000  # so that the newest is found in two short listings
_PROBE: Final = b"A write that succeeds only where nothing has this name.\n"


@dataclass
class Commits:
    """Those to the store at ``root``; ``last`` is the newest that a run knows of."""

    root: RemotePath
    last: int = 0

    def refusal(self) -> str:
        """Why nothing may be published here; empty where it may. Writes a file of its own, twice
        where it is not there yet.

        Raises ``StoreError`` where the storage does not answer.
        """
        if not self.root.creates:
            return (
                f"a {self.root.filesystem.type_name!r} filesystem has no write that succeeds only "
                "where nothing has that name, so two runs could publish over each other; give the "
                "URI (s3://…, gs://…, az://…) and pip install 'fundlab[remote]'"
            )
        try:
            for _ in range(2):
                (self.root / COMMITS / "probe").create(_PROBE)
        except FileExistsError:
            return ""
        except PermissionError as error:
            return f"it may not be written to ({error.strerror or error})"
        except OSError as error:
            raise StoreError(f"{self.root} cannot be opened: {error.strerror or error}") from None
        return (
            "this storage lets a write happen where the name is taken, although it was asked not "
            "to (If-None-Match), so two runs could publish over each other"
        )

    def begin(self) -> None:
        """See what there is, and make up for a run that died. The caller holds this machine's
        lock."""
        self.last = self._newest()
        if self.last:
            place = self._place(self.last)
            try:
                self._settle(json.loads(place.read_bytes()))
            except (ValueError, KeyError, TypeError):
                hint = "restore it from a backup of the storage"
                raise StoreDamaged("is not what was written", path=place, hint=hint) from None
        for path in (self.root / COMMITS / _WAITING).iterdir():
            number = path.name.lstrip(".").partition("-")[0]
            if number.isdecimal() and int(number) <= self.last:  # nobody waits with it any more
                path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raises ``StoreLocked`` where another run has published since ``begin``."""
        if self._newest() != self.last:
            raise self._beaten()

    def publish(self, hidden: Path, path: RemotePath) -> None:
        """Put the finished file ``hidden`` at ``path``. Raises ``StoreLocked`` where another run
        has published since ``begin``, and ``OSError``; nothing is published then."""
        waiting = self.root / COMMITS / _WAITING / f"{self.last + 1:08d}-{uuid4().hex}"
        waiting.put(hidden)
        entry = {"file": path.key.removeprefix(f"{self.root.key}/"), "waiting": waiting.name}
        self.take(entry)
        if not self._settle(entry) and not path.exists() and self._newest() == self.last:
            raise FileNotFoundError(f"{waiting} was taken away")

    def take(self, entry: Mapping[str, Any]) -> None:
        """Take the next number, for a publication or what else changes the store. Raises
        ``StoreLocked`` where another run has it."""
        place = self._place(self.last + 1)
        content = canonical({**entry, "run": uuid4().hex})
        try:
            place.create(content)
        except FileExistsError:
            # An answer that was lost is asked for again, and then it is this run that was first.
            if place.read_bytes() != content:
                raise self._beaten() from None
        self.last += 1

    def _settle(self, entry: Mapping[str, Any]) -> bool:
        """Bring to its place what waits, if anything does."""
        if "waiting" not in entry:
            return False
        waiting = self.root / COMMITS / _WAITING / entry["waiting"]
        try:
            waiting.copy_to(self.root / entry["file"])
        except FileNotFoundError:  # another run was first
            return False
        waiting.unlink(missing_ok=True)
        return True

    def _newest(self) -> int:
        folders = [path.name for path in (self.root / COMMITS).iterdir()]
        folder = max((name for name in folders if name.isdecimal()), default="")
        names = [path.stem for path in (self.root / COMMITS / folder).iterdir()] if folder else []
        return max((int(name) for name in names if name.isdecimal()), default=0)

    def _place(self, number: int) -> RemotePath:
        return self.root / COMMITS / f"{number // _IN_FOLDER:04d}" / f"{number:08d}.json"

    def _beaten(self) -> StoreLocked:
        return StoreLocked(
            f"{self.root}: another run, on another machine or of another user, has published since "
            "this one began: nothing more of this one was published; run it again"
        )
