"""Anchors: what was anchored is a prefix of what is there, or what is not is named."""

import json
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from fake_service import (
    FakeService,
    forge_manifest,
    moment,
    newest_manifest,
    rewrite,
    transfer,
    withdrawal,
)

import fundlab
from fundlab import Store
from fundlab.base.errors import InvalidRequest, SettingsError, StoreError
from fundlab.cli import run
from fundlab.client.signing import new_key
from fundlab.evidence.anchors import Anchor, check_anchor, make_anchor, read_anchor, table_lanes
from fundlab.payments.identity import WITHDRAWAL
from fundlab.payments.journal import Journal, identity_of, row_hash
from fundlab.store.records import write_record

GUIDE = Path(fundlab.__file__).parent / "docs" / "source" / "guides" / "security.md"


def files(store: Store, table: str) -> list[Path]:
    return sorted((store.path / table).glob("*.parquet"))


def problems(store: Store, rule: str, anchor: Any = None) -> list[str]:
    return [str(one) for one in store.verify(anchor).problems if one.rule == rule]


def first_transfers() -> list[dict[str, Any]]:
    return [transfer(1), withdrawal(2), transfer(3)]


def later_transfers() -> list[dict[str, Any]]:
    """As the service lists them after the last sync of ``kept``."""
    changed = withdrawal(2, updated_at=moment(70)) | {"status": "COMPLETED"}
    return [transfer(1), changed, transfer(3), transfer(60)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of three publications, two notes, a pin and three payments, and beside
    it what it was before each of the last steps."""
    folder = tmp_path_factory.mktemp("kept")
    store, journals = Store(folder / "now" / "store"), folder / "now" / "journals"
    service = FakeService(first_transfers())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNDLAB_JOURNAL", str(journals))
        store.sync(service)
        service.transfers.append(transfer(60))
        store.sync(service)
        shutil.copytree(folder / "now", folder / "before-1")
        service.transfers = later_transfers()
        store.sync(service)
        store.annotate("t-000001", comment="one", by="Ana")
        store.pin("early")
        store.annotate("t-000001", comment="two", by="Ana")
        owner = {"base_url": service.base_url, "client_id": service.client_id}
        book = Journal(journals / f"{identity_of(owner)[1]}.sqlite", owner)
        shutil.copytree(folder / "now", folder / "before-2")
        for number in range(3):
            arguments = {"amount": "1", "fiat_account_id": "f"}
            book.record(f"ref-{number}", WITHDRAWAL, arguments, json.dumps(arguments).encode(), {})
        shutil.copytree(folder / "now", folder / "before-3")
        store.pin("late")
    return folder


@pytest.fixture
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    return tmp_path / "journals"


@pytest.fixture
def service() -> FakeService:
    return FakeService(later_transfers())


@pytest.fixture
def store(kept: Path, tmp_path: Path, journals: Path) -> Store:
    shutil.copytree(kept / "now", tmp_path, dirs_exist_ok=True)
    return Store(tmp_path / "store")


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
        after = store.anchor()
        assert after.lanes == before.lanes
        assert store.verify(before.line).ok
        assert not Store(store.path).verify(after.line).problems

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

    @pytest.mark.parametrize("given", [5, b"fundlab-anchor-1 transfers=1"])
    def test_another_type_is_no_anchor(self, given: Any) -> None:
        with pytest.raises(InvalidRequest, match=r"is not an anchor: give a line that begins with"):
            read_anchor(given)


# ------------------------------------------------------------------------- tamperings


Kept = Path
"""The folder of the fixture ``kept``."""


def damage(store: Store, rng: random.Random, _: Kept) -> None:
    path = rng.choice([*files(store, "transfers"), *files(store, "balances")])
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def drop_newest(store: Store, rng: random.Random, _: Kept) -> None:
    files(store, rng.choice(["transfers", "balances"]))[-1].unlink()


def take_back_the_last_publication(store: Store, _: random.Random, __: Kept) -> None:
    """The manifest before it is there still: only ``head`` must name that."""
    newest_manifest(store.path).unlink()
    forge_manifest(store.path, lambda content: None)


def forge_rows(store: Store, rng: random.Random, _: Kept) -> None:
    manifest, head = newest_manifest(store.path), store.path / "head"
    kept = manifest.read_bytes(), head.read_bytes()
    forge_rows_and_manifest(store, rng, _)
    manifest.write_bytes(kept[0])
    head.write_bytes(kept[1])


def forge_rows_and_manifest(store: Store, rng: random.Random, _: Kept) -> None:
    if rng.random() < 0.5:
        store.compact()
    named = json.loads(newest_manifest(store.path).read_bytes())["manifest"]["files"]["transfers"]
    path = store.path / "transfers" / rng.choice(named)[0]
    table = pq.read_table(path)
    place = table.column_names.index("memo")
    memo = [f"forged {rng.random()}"] * table.num_rows
    rewrite(path, table.set_column(place, table.field(place), [memo]))


def forge_records(store: Store, rng: random.Random, _: Kept) -> str:
    """All of them again, with right hashes: swapped, edited or cut; the name of the newest."""
    folder, records, newest = store.path / "records", store.records(), ""
    shutil.rmtree(folder)
    how = rng.randrange(3)
    for number, record in enumerate(records[::-1] if how == 0 else records):
        content = {**record.content, "comment": "forged"} if how == 1 else record.content
        if how != 2 or number:
            kind: Any = record.kind
            newest = write_record(folder, record.number, kind, record.at, content, newest).name
    return newest


def forge_records_and_manifest(store: Store, rng: random.Random, kept: Kept) -> None:
    newest = forge_records(store, rng, kept)
    forge_manifest(store.path, lambda content: content.update(record=newest))


def roll_back(store: Store, rng: random.Random, kept: Kept) -> None:
    """The whole store and its journals."""
    shutil.rmtree(store.path)
    shutil.rmtree(store.path.parent / "journals")
    earlier = kept / f"before-{rng.randrange(1, 4)}"
    shutil.copytree(earlier, store.path.parent, dirs_exist_ok=True)


def _journal(store: Store) -> Path:
    (path,) = (store.path.parent / "journals").glob("*.sqlite")
    return path


def forge_payment(store: Store, rng: random.Random, _: Kept) -> None:
    """A row that is not the last one, with a right hash."""
    with closing(sqlite3.connect(_journal(store))) as database:
        database.row_factory = sqlite3.Row
        database.execute("DROP TRIGGER intents_stay")
        number = rng.randrange(1, 3)
        (row,) = database.execute("SELECT * FROM intents WHERE number = ?", (number,))
        (before,) = database.execute(
            "SELECT IFNULL((SELECT sha256 FROM intents WHERE number = ?), '')", (number - 1,)
        ).fetchone()
        values = dict(row) | {"body": row["body"].replace(b'"1"', b'"2"')}
        del values["number"], values["sha256"]
        digest = row_hash(*values.values(), before)
        database.execute(
            "UPDATE intents SET body = ?, sha256 = ? WHERE number = ?",
            (values["body"], digest, number),
        )
        database.commit()


def cut_journal(store: Store, rng: random.Random, _: Kept) -> None:
    """With its counters."""
    keep = rng.randrange(3)
    with closing(sqlite3.connect(_journal(store))) as database:
        for table in ("events", "intents"):
            database.execute(f"DROP TRIGGER {table}_kept")
            database.execute(f"DELETE FROM {table} WHERE number > ?", (keep,))
            database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (keep, table))
        database.commit()


def remove_journal(store: Store, _: random.Random, __: Kept) -> None:
    shutil.rmtree(store.path.parent / "journals")


TAMPERINGS = {
    damage: ("a bit, page or file damaged", True),
    drop_newest: ("a file missing, the newest one too", True),
    take_back_the_last_publication: ("the last manifest removed, and `head` made to fit", False),
    forge_rows: ("a file rewritten with its hashes", True),
    forge_rows_and_manifest: ("the same, and the manifest with it", False),
    forge_records: ("closes, pins or annotations edited, swapped or cut, hashes and all", True),
    forge_records_and_manifest: ("the same records, and the manifest with them", False),
    roll_back: ("all rolled back to an earlier copy", False),
    forge_payment: ("a payment in the journal rewritten with its hash", True),
    cut_journal: ("the journal of payments cut, with its counters", False),
    remove_journal: ("the journal of payments removed", False),
}
"""What the guide calls each, and whether it is found without an anchor."""


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_the_guide_says_what_is_found(store: Store, kept: Path, tamper: Any) -> None:
    (store.path.parent / "anchor.json").write_text(json.dumps(store.anchor().to_json()))
    line = store.anchor().line
    where, alone = TAMPERINGS[tamper]
    assert f"| {where} | {'yes' if alone else 'no'} | yes |" in GUIDE.read_text()
    rng = random.Random(5)
    tamper(store, rng, kept)
    assert (not store.verify().ok) == alone
    given = rng.choice([line, store.path.parent / "anchor.json"])
    assert problems(store, "anchor", given) or tamper is damage


def test_the_guide_has_no_other_rows() -> None:
    rows = [
        line.split("|")[1].strip() for line in GUIDE.read_text().splitlines() if "| yes |" in line
    ]
    assert rows == [where for where, _ in TAMPERINGS.values()]


def tampered(folder: Path, kept: Path, anchor: Anchor, seed: int) -> str:
    """What was done to a copy; its anchor finds it, as ``verify`` asks it."""
    rng = random.Random(seed)
    shutil.copytree(kept / "now", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNDLAB_JOURNAL", str(folder / "journals"))
        store = Store(folder / "store")
        tamper = rng.choice([one for one in TAMPERINGS if one is not damage])
        tamper(store, rng, kept)
        with suppress(StoreError):  # which verify names
            assert check_anchor(anchor, store.anchor()), (seed, tamper.__name__)
    shutil.rmtree(folder)
    return tamper.__name__


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.campaign)])
def test_tamperings_are_found_with_an_anchor(
    store: Store, kept: Path, tmp_path: Path, seed: int, figure: Any, count: int
) -> None:
    anchor = read_anchor(store.anchor().line)
    kinds: Counter[str] = Counter()
    for number in range(count):
        kinds[tampered(tmp_path / "one", kept, anchor, seed * 1_000 + number)] += 1
        if number % 100 == 99:
            print(f"{number + 1} tamperings, all found: {dict(kinds)}", flush=True)
    assert len(kinds) == len(TAMPERINGS) - 1
    figure(f"tamperings: {count} of {len(kinds)} kinds, all found with an anchor")


def test_a_store_that_was_rolled_back_is_named(store: Store, service: FakeService) -> None:
    earlier = store.path.with_name("earlier")
    shutil.copytree(store.path, earlier)
    service.transfers.append(transfer(80))
    store.sync(service)
    anchor = store.anchor().line
    found = problems(Store(earlier), "anchor", anchor)
    assert any("3: the newest were removed, or all was rolled back" in one for one in found), found


def test_an_anchor_file_names_what_was_rewritten(store: Store) -> None:
    anchor = store.path.parent / "anchor.json"
    anchor.write_text(json.dumps(store.anchor().to_json()))
    path = files(store, "transfers")[1]
    table = pq.read_table(path)
    place = table.column_names.index("memo")
    rewrite(path, table.set_column(place, table.field(place), [["forged"] * table.num_rows]))
    found = problems(store, "anchor", anchor)
    assert found[-1] == "transfers: anchor: publication 2: rewritten, not as anchored"


def test_publications_of_all_kinds_keep_it_whole(store: Store, service: FakeService) -> None:
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
    other = make_anchor({**table_lanes(store), "records": ()}, 1, "0" * 64)
    forged = other.line + line[line.index(" key=") :]
    with pytest.raises(SettingsError, match="is not signed with the key k-1"):
        run(["verify", "--store", str(store.path), "--anchor", forged])


def test_verify_ends_with_3_where_the_anchored_is_not_there(store: Store, capsys: Any) -> None:
    run(["anchor", "--store", str(store.path), "--out", str(store.path.parent / "a.json")])
    lost = files(store, "balances")[-1]
    lost.unlink()
    with pytest.raises(typer.Exit, match="3"):
        run(["verify", "--store", str(store.path), "--anchor", str(store.path.parent / "a.json")])
    said = capsys.readouterr().out
    assert "anchor: anchor: what was anchored: not to be read" in said
    assert lost.name in said
