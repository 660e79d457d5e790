"""A path with no store, or a store of nobody's: an error, never a table without rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import InvalidRequest, StoreError
from fundlab.payments.journal import check_owner


@pytest.mark.parametrize(
    "look",
    [
        lambda store: store.read("transfers"),
        lambda store: store.read_arrow("balances"),
        lambda store: store.history("events"),
        lambda store: store.scan("transfers"),
        lambda store: store.known("transfers"),
        lambda store: store.assertions(),
        lambda store: store.verify(),
        fl.reconcile.judge,
        fl.report,
    ],
)
def test_what_is_not_there_is_not_empty(look: Callable[[Any], object], tmp_path: Path) -> None:
    (tmp_path / "data" / "store" / "transfers").mkdir(parents=True)
    for path in (tmp_path / "nowhere", tmp_path / "data"):  # mistyped; and the folder above
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(StoreError, match=f"there is no store at {path}; check the path, or"):
            look(fl.Store(path))
        assert sorted(tmp_path.rglob("*")) == before
    assert "empty; fill it" in repr(fl.Store(tmp_path / "nowhere"))


def test_one_that_a_sync_began_is_there(tmp_path: Path) -> None:
    store = fl.Store(tmp_path / "books")
    with store.lock():
        pass
    assert store.read("transfers").empty


def test_a_store_that_names_no_service_is_nobodys(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="names no service that it belongs to; nothing was sent"):
        check_owner(tmp_path, {}, {"base_url": "https://a.example", "client_id": "c"})


@pytest.mark.parametrize("path", [r"C:\books", "D:/books", Path("/cwd/C:\\books")])
def test_a_path_of_windows_is_not_a_name(path: str | Path) -> None:
    with pytest.raises(InvalidRequest, match="a path of Windows; give one that begins with /"):
        fl.Store(path)
