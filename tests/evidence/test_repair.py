"""Repair: what is damaged or missing is named, set aside and fetched again; the rest stays."""

import shutil
from pathlib import Path

import pytest
from fake_service import FakeService, moment, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import StoreDamaged
from fundlab.evidence.repair import SET_ASIDE
from fundlab.payments.journal import identity_of
from fundlab.store import compaction
from fundlab.store.parts import Part


@pytest.fixture
def service() -> FakeService:
    return FakeService([transfer(1), withdrawal(2), transfer(3)])


@pytest.fixture
def store(tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    monkeypatch.setattr(compaction, "pays", lambda _: False)
    store = Store(tmp_path / "store")
    store.sync(service)
    store.pin("early")
    service.transfers.append(transfer(60))
    store.sync(service)
    service.transfers[1].update(status="COMPLETED", updated_at=moment(70))
    store.sync(service)
    store.pin("late")
    return store


def files(store: Store) -> list[Path]:
    return sorted((store.path / "transfers").glob("*.parquet"))


def test_nothing_to_do(store: Store, service: FakeService) -> None:
    calls = len(service.calls)
    assert str(store.repair(service)) == "nothing is damaged or missing"
    assert len(service.calls) == calls
    assert store.records() == []


def test_what_only_a_backup_brings_back_is_named(store: Store, service: FakeService) -> None:
    (store.path / "pins" / "early.json").write_text("{}")
    owner = {"base_url": service.base_url, "client_id": service.client_id}
    journal = store.path.parent / "journals" / f"{identity_of(owner)[1]}.sqlite"
    journal.parent.mkdir()
    journal.write_bytes(b"")
    said = str(store.repair(service)).splitlines()
    assert [line.partition(":")[0] for line in said] == [
        "the pin early", f"the journal {journal.name}",
    ]  # fmt: skip
    assert all("restore it from a backup" in line for line in said)


def test_a_foreign_file_far_ahead_stops_nothing(store: Store, service: FakeService) -> None:
    before = store.read("transfers")
    foreign = store.path / "transfers" / f"part-99999999-{'0' * 16}.parquet"
    foreign.write_bytes(b"not one of ours")
    assert store.read("transfers").equals(before)
    (problem,) = store.verify().problems
    assert (problem.where, problem.found) == (foreign.name, "a foreign file, which is left out")
    service.transfers.append(transfer(90))
    store.sync(service)
    assert "not a file of the store; nothing is lost" in str(store.repair(service))
    assert (store.path / SET_ASIDE / "transfers" / foreign.name).is_file()
    assert store.verify().ok
    assert len(store.read("transfers")) == 5


def test_a_copy_of_an_own_file_far_ahead_stops_nothing(store: Store) -> None:
    before, own = store.read("transfers"), files(store)[-1]
    copied = own.with_name(own.name.replace("00000003", "90000000"))
    shutil.copy(own, copied)
    assert store.read("transfers").equals(before)
    (problem,) = store.verify().problems
    assert (problem.where, problem.found) == (copied.name, "a foreign file, which is left out")


def test_a_missing_file_in_between_is_named(store: Store) -> None:
    files(store)[1].unlink()
    with pytest.raises(
        StoreDamaged, match=r"publication 2 of transfers is missing.*fundlab repair"
    ):
        store.read("transfers")
    assert store.read_arrow("balances").num_rows == 3


def test_two_files_of_one_number(store: Store, service: FakeService) -> None:
    before = store.read("transfers")
    other = files(store)[-1].with_name(f"part-00000003-{'1' * 16}.parquet")
    other.write_bytes(b"half a file")
    assert store.read("transfers").equals(before)
    assert [one.where for one in store.verify().problems] == [other.name]
    store.repair(service)
    assert store.verify().ok


@pytest.fixture
def twin(store: Store, service: FakeService, tmp_path: Path) -> Store:
    """A copy of the store that went another way from publication 4 on, a little later."""
    shutil.copytree(store.path, tmp_path / "twin")
    service.transfers.append(transfer(80))
    store.sync(service, ["transfers"])
    service.transfers.append(transfer(81))
    made = Store(tmp_path / "twin")
    made.sync(service, ["transfers"])
    return made


def test_two_that_are_both_what_was_written(
    store: Store, twin: Store, service: FakeService
) -> None:
    """Every read goes on with the one that was there first; the other one is named."""
    before = store.read("transfers")
    theirs = Path(shutil.copy(files(twin)[-1], store.path / "transfers"))
    assert store.read("transfers").equals(before)
    (problem,) = store.verify().problems
    (kept,) = (one for one in files(store)[3:] if one != theirs)
    assert problem.where == theirs.name
    assert problem.found == f"a second file of its number, left out: {kept.name} is read"
    done = store.sync(service, ["transfers"])
    assert f"transfers: {theirs.name} is a second file of its number" in str(done)
    assert len(store.read("transfers")) == 6
    found = store.repair(service)
    assert theirs.name in str(found)
    assert len(store.read("transfers")) == 6
    assert store.verify().ok, str(store.verify())


def test_the_one_that_the_next_file_was_written_after_counts(
    store: Store, twin: Store, service: FakeService
) -> None:
    """Not the one that was there first: positions of rows in the later files are of the other."""
    service.transfers[0].update(memo="x", updated_at=moment(90))
    twin.sync(service, ["transfers"])
    before = twin.read("transfers")
    earlier = shutil.copy(files(store)[-1], twin.path / "transfers")
    assert twin.read("transfers").equals(before)
    assert [one.where for one in twin.verify().problems] == [Path(earlier).name]


def test_where_no_file_says_which_one_counts_nothing_is_guessed(
    store: Store, twin: Store, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Part, "follows", None)  # as files of earlier versions
    twin.sync(service, ["transfers"])
    service.transfers.append(transfer(95))
    twin.sync(service, ["transfers"])
    shutil.copy(files(store)[-1], twin.path / "transfers")
    with pytest.raises(StoreDamaged, match="two files of this number"):
        twin.read("transfers")
    twin.repair(service)
    assert len(twin.read("transfers")) == 7


def test_a_newest_file_that_is_gone(store: Store, service: FakeService) -> None:
    newest = files(store)[-1]
    newest.unlink()
    assert store.read("transfers").set_index("id")["status"]["t-000002"] == "PENDING"
    found = store.repair(service)
    assert found.lost == [f"transfers/{newest.name}"]
    assert store.read("transfers").set_index("id")["status"]["t-000002"] == "COMPLETED"
    assert len(store.read("transfers", pin="early")) == 3
    with pytest.raises(StoreDamaged, match="the pin 'late' names was lost"):
        store.read("transfers", pin="late")


@pytest.mark.parametrize("compacted", [False, True])
def test_a_damaged_file_is_fetched_again(
    store: Store, service: FakeService, compacted: bool
) -> None:
    if compacted:
        store.compact(["transfers"])
    path = files(store)[0 if compacted else 1]
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    assert not store.verify().ok
    found = store.repair(service)
    assert path.name in str(found)
    assert "lost" in str(found)
    assert (store.path / SET_ASIDE / "transfers" / path.name).read_bytes() == bytes(data)
    rows = store.read("transfers")
    assert len(rows) == 4
    rules = {one.rule for one in store.verify().problems}
    assert rules <= {"file", "balance"}, str(store.verify())  # pins of what is lost
    assert "chain" not in rules
