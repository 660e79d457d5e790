"""Repair: what is damaged or missing is named, set aside and fetched again; the rest stays."""

import copy
import shutil
from pathlib import Path

import pytest
from fake_service import FakeService, moment, newest_manifest, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import StoreDamaged, StoreLocked
from fundlab.evidence.repair import SET_ASIDE, look_for_damage, set_aside
from fundlab.payments.journal import identity_of
from fundlab.store import compaction


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FakeService]:
    """A store of three publications and its service, for each test to copy."""
    service = FakeService([transfer(1), withdrawal(2), transfer(3)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compaction, "pays", lambda _: False)
        store = Store(tmp_path_factory.mktemp("repair") / "store")
        store.sync(service)
        store.pin("early")
        service.transfers.append(transfer(60))
        store.sync(service)
        service.transfers[1].update(status="COMPLETED", updated_at=moment(70))
        store.sync(service)
        store.pin("late")
    return store.path, service


@pytest.fixture
def service(made: tuple[Path, FakeService]) -> FakeService:
    return copy.deepcopy(made[1])


@pytest.fixture
def store(tmp_path: Path, made: tuple[Path, FakeService], monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    monkeypatch.setattr(compaction, "pays", lambda _: False)
    return Store(shutil.copytree(made[0], tmp_path / "store"))


def files(store: Store) -> list[Path]:
    return sorted((store.path / "transfers").glob("*.parquet"))


def test_nothing_to_do(store: Store, service: FakeService) -> None:
    calls, records = len(service.calls), len(store.records())
    assert str(store.repair(service)) == "nothing is damaged or missing"
    assert len(service.calls) == calls
    assert len(store.records()) == records


def test_who_has_lost_the_lock_moves_no_file(store: Store) -> None:
    first = files(store)[0]
    first.write_bytes(b"damaged")
    before = sorted(path.relative_to(store.path) for path in store.path.rglob("*"))

    def lost() -> None:
        raise StoreLocked("another run has taken the lock")

    with pytest.raises(StoreLocked):
        set_aside(store, look_for_damage(store), lost)
    assert sorted(path.relative_to(store.path) for path in store.path.rglob("*")) == before


def test_what_only_a_backup_brings_back_is_named(store: Store, service: FakeService) -> None:
    lost = next(one for one in store.records() if one.content.get("pin") == "early")
    (store.path / "records" / lost.name).write_text("{}")
    owner = {"base_url": service.base_url, "client_id": service.client_id}
    journal = store.path.parent / "journals" / f"{identity_of(owner)[1]}.sqlite"
    journal.parent.mkdir()
    journal.write_bytes(b"")
    for way in (lambda: store.read("transfers"), store.pins, lambda: store.sync(service)):
        with pytest.raises(StoreDamaged, match=lost.name):
            way()
    said = str(store.repair(service)).splitlines()
    assert [line.partition(":")[0] for line in said] == [
        f"records/{lost.name}", f"the journal {journal.name}",
    ]  # fmt: skip
    assert all("restore" in line and "from a backup" in line for line in said)
    assert list(store.pins()) == ["late"]  # what is left is read
    assert len(store.read("transfers", pin="late")) == 4
    store.annotate("t-000001", comment="after")
    assert store.verify().problems[0].table == "journal"


def test_a_foreign_file_stops_nothing(store: Store, service: FakeService) -> None:
    before = store.read("transfers")
    foreign = store.path / "transfers" / f"part-00000001-{'0' * 16}.parquet"
    foreign.write_bytes(b"not one of ours")
    ahead = store.path / "transfers" / f"part-99999999-{'0' * 16}.parquet"
    ahead.write_bytes(b"nor this")
    assert store.read("transfers").equals(before)
    (problem,) = store.verify().problems
    assert problem.where == ahead.name
    service.transfers.append(transfer(90))
    store.sync(service)
    assert len(store.read("transfers")) == 5


def test_another_store_s_file_of_a_number_is_not_read(
    store: Store, service: FakeService, tmp_path: Path
) -> None:
    """As a copy that went another way leaves it."""
    shutil.copytree(store.path, tmp_path / "twin")
    service.transfers.append(transfer(80))
    store.sync(service, ["transfers"])
    before = store.read("transfers")
    service.transfers.append(transfer(81))
    twin = Store(tmp_path / "twin")
    twin.sync(service, ["transfers"])
    theirs = files(twin)[-1]
    assert theirs.name[:13] == files(store)[-1].name[:13]
    shutil.copy(theirs, store.path / "transfers")
    assert store.read("transfers").equals(before)
    assert not store.verify().problems


def test_a_missing_file_in_between_is_named(store: Store, service: FakeService) -> None:
    _, lost, later = files(store)
    lost.unlink()
    with pytest.raises(StoreDamaged, match=rf"{lost.name}: is missing.*fundlab repair"):
        store.read("transfers")
    assert store.read_arrow("events").num_rows == 0
    found = store.repair(service)
    assert found.lost == [f"transfers/{lost.name}"]
    assert [path.name for path in found.aside] == [later.name]
    assert len(store.read("transfers")) == 4
    assert store.read("transfers").set_index("id")["status"]["t-000002"] == "COMPLETED"


def test_a_newest_file_that_is_gone(store: Store, service: FakeService) -> None:
    newest = files(store)[-1]
    newest.unlink()
    with pytest.raises(StoreDamaged, match=f"{newest.name}: is missing"):
        store.read("transfers")
    found = store.repair(service)
    assert found.lost == [f"transfers/{newest.name}"]
    assert store.read("transfers").set_index("id")["status"]["t-000002"] == "COMPLETED"
    assert len(store.read("transfers", pin="early")) == 3
    said = r"the pin 'late' names was lost before the repair of \d{4}(-\d\d){2}T\d\d(:\d\d){2}Z: re"
    with pytest.raises(StoreDamaged, match=said):
        store.read("transfers", pin="late")


@pytest.mark.parametrize("compacted", [False, True])
def test_a_damaged_file_is_fetched_again(
    store: Store, service: FakeService, compacted: bool
) -> None:
    if compacted:
        store.compact(["transfers"])
    path = next(one for one in files(store) if one.name.startswith("base") or not compacted)
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
    assert rules <= {"balance"}, str(store.verify())


def test_a_base_that_is_gone_while_what_it_was_merged_from_is_there(
    store: Store, service: FakeService
) -> None:
    merged = files(store)
    store.compact(["transfers"])
    (base,) = [path for path in files(store) if path not in merged]
    base.unlink()
    for way in (lambda: store.read("transfers"), lambda: store.sync(service)):
        with pytest.raises(StoreDamaged, match=f"{base.name}: is missing"):
            way()
    assert files(store) == merged
    assert base.name in str(store.repair(service))
    assert len(store.read("transfers")) == 4


LOST = {
    "head": lambda store: [store.path / "head"],
    "newest manifest": lambda store: [newest_manifest(store.path)],
    "both": lambda store: [store.path / "head", newest_manifest(store.path)],
    "all manifests": lambda store: [*(store.path / "manifests").iterdir()],
}


@pytest.mark.parametrize("compacted", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("what", LOST)
@pytest.mark.parametrize("how", ["removed", "garbled"])
def test_a_manifest_is_made_again_of_what_is_there(
    store: Store, service: FakeService, what: str, how: str, compacted: bool
) -> None:
    if compacted:
        store.compact()
    before, pins = store.read("transfers"), store.pins()
    for path in LOST[what](store):
        if how == "removed":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-2])
    for way in (lambda: store.read("transfers"), store.pins, lambda: store.sync(service)):
        with pytest.raises(StoreDamaged, match=r"head|manifests/"):
            way()
    assert not store.verify().ok
    found = store.repair()
    assert "made again of what is there" in str(found)
    assert store.read("transfers").equals(before)
    assert store.pins() == pins
    assert store.read("transfers", pin="early").shape[0] == 3
    assert store.verify().ok, str(store.verify())
    service.transfers.append(transfer(90))
    store.sync(service)
    assert len(store.read("transfers")) == 5
