"""Anchors: what was anchored is a prefix of what is there, or what is not is named."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from fake_service import FakeService, moment, rewrite, transfer, withdrawal

from fundlab import Store
from fundlab.api.signing import new_key
from fundlab.cli import run
from fundlab.errors import InvalidRequest, SettingsError
from fundlab.journals import WITHDRAWAL, Journal, identity_of
from fundlab.store import compaction
from fundlab.store.anchors import make_anchor, read_anchor
from fundlab.store.records import append_record


def files(store: Store, table: str) -> list[Path]:
    return sorted((store.path / table).glob("*.parquet"))


def problems(store: Store, rule: str, anchor: Any = None) -> list[str]:
    return [str(one) for one in store.verify(anchor).problems if one.rule == rule]


@pytest.fixture
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    return tmp_path / "journals"


@pytest.fixture
def service() -> FakeService:
    return FakeService([transfer(1), withdrawal(2), transfer(3)])


@pytest.fixture
def store(tmp_path: Path, journals: Path, service: FakeService) -> Store:
    """Three publications, two notes and a payment."""
    store = Store(tmp_path / "store")
    store.sync(service)
    service.transfers.append(transfer(60))
    store.sync(service)
    service.transfers[1].update(status="COMPLETED", updated_at=moment(70))
    store.sync(service)
    store.annotate("t-000001", comment="one", by="Ana")
    store.annotate("t-000001", comment="two", by="Ana")
    owner = {"base_url": service.base_url, "client_id": service.client_id}
    book = Journal(journals / f"{identity_of(owner)[1]}.sqlite", owner)
    for number in range(3):
        book.record(f"ref-{number}", WITHDRAWAL, {"amount": "1", "fiat_account_id": "f"}, b"{}", {})
    return store


class TestPrefix:
    def test_what_comes_later_changes_nothing(self, store: Store, service: FakeService) -> None:
        anchor = store.anchor().line
        store.compact()
        service.transfers.append(transfer(90))
        store.sync(service)
        store.annotate("t-000001", comment="three", by="Ana")
        store.compact()
        found = store.verify(anchor)
        assert found.ok, str(found)
        assert store.anchor().line != anchor

    def test_it_is_the_same_after_a_compaction(self, store: Store) -> None:
        before = store.anchor()
        store.compact()
        assert store.anchor() == before

    def test_a_line_and_a_file(self, store: Store, tmp_path: Path) -> None:
        anchor = store.anchor()
        assert "\n" not in anchor.line
        assert len(anchor.line) < 500
        path = tmp_path / "anchor.json"
        path.write_text(json.dumps(anchor.to_json()))
        assert (read_anchor(path).line, read_anchor(path).lanes) == (anchor.line, anchor.lanes)
        assert read_anchor(anchor.line).hash == anchor.hash
        text = json.loads(path.read_text())
        text["lanes"]["records"].reverse()
        path.write_text(json.dumps(text))
        with pytest.raises(InvalidRequest, match="its hashes are not those"):
            read_anchor(path)
        with pytest.raises(InvalidRequest, match="is not an anchor"):
            read_anchor("fundlab-anchor-1 transfers=1")

    def test_a_store_of_an_earlier_version(self, tmp_path: Path, journals: Path) -> None:
        sample = Path(__file__).parents[2] / "data" / "sample"
        shutil.copytree(sample, tmp_path / "old")
        store = Store(tmp_path / "old")
        anchor = store.anchor().line
        store.annotate(store.read("transfers")["id"][0], comment="y")  # the chain begins here
        found = store.verify(anchor)
        assert not [one for one in found.problems if one.rule in ("chain", "anchor")], str(found)


def _drop_newest(store: Store, rng: random.Random) -> None:
    files(store, rng.choice(["transfers", "balances"]))[-1].unlink()


def _rewrite_rows(store: Store, rng: random.Random) -> None:
    path = rng.choice(files(store, "transfers"))
    table = pq.read_table(path)
    place = table.column_names.index("memo")
    memo = [f"forged {rng.random()}"] * table.num_rows
    changed = table.set_column(place, table.field(place), [memo])
    rewrite(path, changed)


def _cut_journal(store: Store, rng: random.Random) -> None:
    (path,) = Path(store.path.parent / "journals").glob("*.sqlite")
    keep = rng.randrange(3)
    with closing(sqlite3.connect(path)) as database:
        for table in ("events", "intents"):
            database.execute(f"DROP TRIGGER {table}_kept")
            database.execute(f"DELETE FROM {table} WHERE number > ?", (keep,))
            database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (keep, table))
        database.commit()


def _remove_journal(store: Store, _: random.Random) -> None:
    shutil.rmtree(store.path.parent / "journals")


def _rewrite_records(store: Store, rng: random.Random) -> None:
    """All of them again, with right hashes: edited, swapped, or cut."""
    folder = store.path / "records"
    records = store.records()
    shutil.rmtree(folder)
    folder.mkdir()
    how = rng.randrange(3)
    for number, record in enumerate(records[::-1] if how == 0 else records):
        content = {**record.content, "comment": "forged"} if how == 1 else record.content
        if how != 2 or number:
            append_record(folder, "annotate", record.at, content, record.chain)


TAMPERINGS = [_drop_newest, _rewrite_rows, _cut_journal, _remove_journal, _rewrite_records]


@pytest.mark.parametrize("tamper", TAMPERINGS)
@pytest.mark.parametrize("compacted", [False, True])
def test_tamperings_are_found_with_an_anchor(store: Store, tamper: Any, compacted: bool) -> None:
    if compacted and tamper is _rewrite_rows:
        store.compact()
        for path in files(store, "transfers")[1:]:
            path.unlink()  # as an hour later
    anchor = store.anchor()
    tamper(store, random.Random(5))
    for given in (anchor.line, Path(_written(store, anchor))):
        assert problems(store, "anchor", given), tamper.__name__


def _written(store: Store, anchor: Any) -> Path:
    path = store.path.parent / "anchor.json"
    path.write_text(json.dumps(anchor.to_json()))
    return path


def test_a_store_that_was_rolled_back_is_named(store: Store, service: FakeService) -> None:
    earlier = store.path.with_name("earlier")
    shutil.copytree(store.path, earlier)
    service.transfers.append(transfer(80))
    store.sync(service)
    anchor = store.anchor().line
    found = problems(Store(earlier), "anchor", anchor)
    assert any("3: the newest were removed, or all was rolled back" in one for one in found), found


def test_an_anchor_file_names_what_was_rewritten(store: Store) -> None:
    anchor = store.anchor()
    path = files(store, "transfers")[1]
    table = pq.read_table(path)
    place = table.column_names.index("memo")
    rewrite(path, table.set_column(place, table.field(place), [["forged"] * table.num_rows]))
    found = problems(store, "anchor", _written(store, anchor))
    assert found == ["transfers: anchor: publication 2: rewritten, not as anchored"]


@pytest.mark.campaign
def test_a_thousand_tamperings(store: Store, tmp_path: Path) -> None:
    anchor = store.anchor().line
    for seed in range(1_000):
        rng = random.Random(seed)
        place = tmp_path / f"one-{seed}"
        place.mkdir()
        shutil.copytree(store.path, place / "store")
        shutil.copytree(store.path.parent / "journals", place / "journals")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FUNDLAB_JOURNAL", str(place / "journals"))
            one = Store(place / "store")
            rng.choice(TAMPERINGS)(one, rng)
            assert problems(one, "anchor", anchor), seed
        shutil.rmtree(place)


class TestChain:
    @pytest.mark.parametrize("table", ["transfers", "balances"])
    def test_a_newest_file_that_vanished_is_named(self, store: Store, table: str) -> None:
        newest = files(store, table)[-1]
        newest.unlink()
        assert any(newest.name in one for one in problems(store, "chain"))

    def test_the_very_last_one(
        self, store: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compaction, "pays", lambda _: False)
        service.transfers.append(transfer(80))
        store.sync(service, tables=["transfers"])
        newest = files(store, "transfers")[-1]
        newest.unlink()
        (found,) = problems(store, "chain")
        assert newest.name in found
        store.sync(service)  # brings it again, and the gap stays
        assert problems(store, "chain")

    def test_a_replaced_file_is_named(self, store: Store) -> None:
        path = files(store, "transfers")[0]
        table = pq.read_table(path)
        place = table.column_names.index("memo")
        rewrite(path, table.set_column(place, table.field(place), [["x"] * table.num_rows]))
        assert any(path.name in one for one in problems(store, "chain"))

    def test_compactions_and_records_keep_it(self, store: Store, service: FakeService) -> None:
        for number in range(5):
            service.transfers.append(transfer(100 + number))
            store.sync(service)
            store.annotate("t-000001", comment=str(number))
            store.compact()
        found = store.verify()
        assert found.ok, str(found)


def test_signed_with_the_configured_key(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    key = tmp_path / "key.pem"
    new_key("ES256", key)
    for name, value in {
        "BASE_URL": "http://127.0.0.1:1", "AUTH_URL": "http://127.0.0.1:1/t", "CLIENT_ID": "c",
        "CLIENT_SECRET": "s", "SIGNING_KEY": str(key), "SIGNING_KEY_ID": "k-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"FUNDLAB_{name}", value)
    run(["anchor", "--store", str(store.path)])
    line = capsys.readouterr().out.strip()
    assert " key=k-1 signature=" in line
    run(["verify", "--store", str(store.path), "--anchor", line])
    assert "The anchor is signed with the key k-1." in capsys.readouterr().out
    forged = make_anchor({**store.lanes(), "records": ()}).line + line[line.index(" key=") :]
    with pytest.raises(SettingsError, match="is not signed with the key k-1"):
        run(["verify", "--store", str(store.path), "--anchor", forged])


def test_verify_ends_with_3_where_the_anchored_is_not_there(store: Store, capsys: Any) -> None:
    run(["anchor", "--store", str(store.path), "--out", str(store.path.parent / "a.json")])
    files(store, "balances")[-1].unlink()
    with pytest.raises(typer.Exit, match="3"):
        run(["verify", "--store", str(store.path), "--anchor", str(store.path.parent / "a.json")])
    assert "balances: anchor:" in capsys.readouterr().out
