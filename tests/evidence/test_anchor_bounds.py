"""Anchors of lanes made by hand: one thing removed, moved, rewritten, cut or added; hashes by
hashlib alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fundlab as fl
from fundlab.base.errors import InvalidRequest, StoreError
from fundlab.evidence.anchors import (
    Anchor,
    check_anchor,
    lane_head,
    make_anchor,
    read_anchor,
    row_hashes,
    table_lane,
)
from fundlab.evidence.observations import Problem
from fundlab.evidence.verify import Verification

A, B, C, D = (hashlib.sha256(name.encode()).hexdigest() for name in "abcd")
MANIFEST = "0123456789abcdef" * 4
LANES: dict[str, list[str]] = {"transfers": [A, B, C], "records": [D], "journal-x": [A, B]}


def anchored(number: int = 5, manifest: str = MANIFEST, **lanes: list[str]) -> Anchor:
    return make_anchor(LANES | lanes, number, manifest)


def line_of(anchor: Anchor) -> Anchor:
    """As it is printed: without its lanes."""
    return read_anchor(anchor.line)


def test_a_head_is_a_chain_of_hashes() -> None:
    head = b""
    for leaf in (A, B):
        head = hashlib.sha256(head + bytes.fromhex(leaf)).digest()
    assert lane_head([A, B]) == head.hex()
    assert lane_head([]) == ""
    one = anchored(empty=[])
    short = {name: lane_head(leaves)[:16] for name, leaves in LANES.items()}
    assert one.counts == {"transfers": 3, "records": 1, "journal-x": 2, "manifest": 5}
    content = [
        ["journal-x", 2, one.heads["journal-x"]], ["manifest", 5, MANIFEST[:16]],
        ["records", 1, one.heads["records"]], ["transfers", 3, one.heads["transfers"]],
    ]  # fmt: skip
    total = json.dumps(content, separators=(",", ":")).encode()
    assert one.hash == hashlib.sha256(total).hexdigest()
    assert one.line == (
        f"fundlab-anchor-1 transfers=3:{short['transfers']} records=1:{short['records']} "
        f"journal-x=2:{short['journal-x']} manifest=5:{MANIFEST[:16]} {one.hash}"
    )
    assert one.signed_line == one.line
    signed = Anchor(one.counts, one.heads, one.hash, key="k", signature="s-_")
    assert signed.signed_line == f"{one.line} key=k signature=s-_"
    assert signed.to_json() == {"anchor": signed.signed_line, "lanes": {}}
    assert one.to_json()["lanes"] == LANES


def test_an_anchor_is_read_as_a_line_or_a_file(tmp_path: Path) -> None:
    one, path = anchored(), tmp_path / "a"
    for given in (one.line, f"{one.line}\n"):
        found = read_anchor(given)
        assert (found.line, found.lanes, found.counts) == (one.line, None, one.counts)
    signed = read_anchor(f"{one.line} key=k signature=s")
    assert (signed.key, signed.signature) == ("k", "s")
    path.write_text(f" {one.line} \n")
    assert read_anchor(path).line == one.line
    path.write_text(json.dumps(one.to_json()))
    assert read_anchor(path).lanes == LANES
    path.write_text(json.dumps(one.to_json() | {"lanes": {}}))
    assert read_anchor(path).lanes is None
    path.write_text(json.dumps(one.to_json() | {"lanes": LANES | {"records": [C]}}))
    with pytest.raises(InvalidRequest, match="its hashes are not those of its anchor line"):
        read_anchor(path)
    without_manifest = one.line.replace(f" manifest=5:{MANIFEST[:16]}", "")
    for text in (
        "[]", '{"anchor": 7}', "{}", one.line[:-1], f"{one.line} key=k", without_manifest,
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(InvalidRequest, match="is not an anchor: give a line that begins with"):
            read_anchor(path)
    with pytest.raises(
        StoreError, match=r"none' cannot be read: No such file or directory; give a "
    ):
        read_anchor(tmp_path / "none")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match="cannot be read"):
        read_anchor(path)
    long = "x" * 81
    with pytest.raises(StoreError) as told:
        read_anchor(long)
    assert f"'{'x' * 80}'" in str(told.value)
    with pytest.raises(InvalidRequest) as bad:
        read_anchor(f"fundlab-anchor-1 {long}")
    assert str(bad.value).startswith(f"{f'fundlab-anchor-1 {long}'[:80]!r} is not")


@pytest.mark.parametrize(
    ("now", "of_file", "of_line"),  # lane, where, expected, found
    [
        ({}, [], []),
        ({"transfers": [A, B, C, D]}, [], []),  # which came later
        ({"records": [D, A]}, [], []),
        ({"transfers": [A, B]},
         [("transfers", "transfers", "3 publications", "2: the newest were removed, or all was "
           "rolled back")], ...),
        ({"transfers": []},
         [("transfers", "transfers", "3 publications", "0: the newest were removed, or all was "
           "rolled back")], ...),
        ({"journal-x": []},
         [("journal-x", "journal-x", "2 rows", "0: the journal is not here, or was removed")], ...),
        ({"journal-x": [A]},
         [("journal-x", "journal-x", "2 rows", "1: the newest were removed, or all was rolled "
           "back")], ...),
        ({"transfers": [A, D, C]}, [("transfers", "publication 2", "as anchored", "rewritten")],
         [("transfers", "publication 1 to 3", "as anchored",
           "one or more of the first 3 rewritten, or their order")]),
        ({"transfers": [B, A, C]},
         [("transfers", "publication 1", "as anchored", "moved to 2"),
          ("transfers", "publication 2", "as anchored", "moved to 1")],
         [("transfers", "publication 1 to 3", "as anchored",
           "one or more of the first 3 rewritten, or their order")]),
        ({"transfers": [D, B]},
         [("transfers", "transfers", "3 publications", "2: the newest were removed, or all was "
           "rolled back"), ("transfers", "publication 1", "as anchored", "rewritten")],
         [("transfers", "transfers", "3 publications", "2: the newest were removed, or all was "
           "rolled back")]),
        ({"records": [A]}, [("records", "record 1", "as anchored", "rewritten")],
         [("records", "record 1 to 1", "as anchored", "the first one rewritten, or their order")]),
        ({"journal-x": [A, D]}, [("journal-x", "row 2", "as anchored", "rewritten")],
         [("journal-x", "row 1 to 2", "as anchored",
           "one or more of the first 2 rewritten, or their order")]),
    ],
)  # fmt: skip
def test_what_of_the_anchored_is_not_there_as_it_was(now: Any, of_file: Any, of_line: Any) -> None:
    there = anchored(**now)
    of_line = of_file if of_line is ... else of_line
    for anchor, wanted in ((anchored(), of_file), (line_of(anchored()), of_line)):
        found = [(one.table, one.where, one.expected, one.found)
                 for one in check_anchor(anchor, there)]  # fmt: skip
        assert found == wanted
        assert all(one.rule == "anchor" for one in check_anchor(anchor, there))


@pytest.mark.parametrize(
    ("number", "manifest", "found"),
    [
        (5, MANIFEST, []), (6, "f" * 64, []),
        (4, MANIFEST, [("manifest", "number 5 or later", "4: all was rolled back")]),
        (5, "f" * 64, [("manifest 5", "as anchored", "another one")]),
    ],
)  # fmt: skip
def test_a_manifest_is_not_rolled_back_or_replaced(number: int, manifest: str, found: Any) -> None:
    problems = check_anchor(anchored(), anchored(number, manifest))
    assert [(one.where, one.expected, one.found) for one in problems] == found


def test_a_line_whose_heads_agree_and_whose_hash_does_not() -> None:
    one = anchored()
    forged = replace(line_of(one), hash="0" * 64)
    (problem,) = check_anchor(forged, one)
    assert (problem.table, problem.where, problem.expected) == ("anchor", "the anchor", "its hash")
    older = read_anchor(anchored(transfers=[A]).line)
    assert check_anchor(older, one) == []


def test_a_row_is_hashed_by_the_values_of_its_columns() -> None:
    """Each by its name, its length and its text, in the order of the names; null is left out."""
    rows = pa.table({
        "b": pa.array(["x", None], pa.string()), "a": pa.array([7, 8], pa.int64()),
        "t": pa.array([5, None], pa.timestamp("ns", "UTC")),
        "n": pa.array([None, None], pa.string()),
    })  # fmt: skip
    first, second = row_hashes(rows)
    assert first == hashlib.sha256(b"a:1:7\nb:1:x\nt:1:5").digest()
    assert second == hashlib.sha256(b"a:1:8\n\n").digest()
    assert row_hashes(rows.select([])) == [hashlib.sha256().digest()] * 2
    empty = pa.table({"a": pa.array([None, None], pa.int64())})
    assert row_hashes(empty) == [hashlib.sha256().digest()] * 2
    wide = row_hashes(pa.table({"a": ["1:", ""], "b": ["", "1:"]}))
    assert len({*wide}) == 2


# ------------------------------------------------------------------- what a verification says


def problem(rule: str = "balance") -> Problem:
    return Problem("t", rule, "w", "a", "b")


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, ["s: 2 files, 1,000 rows, 1 balance observation compared: no problems"]),
        ({"problems": (problem(),)},
         ["s: 2 files, 1,000 rows, 1 balance observation compared: 1 problem", str(problem())]),
        ({"problems": (problem("file"),), "unlisted": 1, "unexplained": 1},
         ["s: 2 files, 1,000 rows, 1 balance observation compared: 2 problems",
          str(problem("file")),
          "Restore the files that are not what was written from a backup, or run 'fundlab repair': "
          "it says what is lost, and fetches it again where it can.",
          "… and 1 more break is not explained one by one",
          "… and 1 more problem is not listed"]),
        ({"unlisted": 2, "unexplained": 2, "moved": ("2026-01 moved\x1b",)},
         ["s: 2 files, 1,000 rows, 1 balance observation compared: 2 problems", "2026-01 moved�",
          "… and 2 more breaks are not explained one by one",
          "… and 2 more problems are not listed"]),
    ],
)  # fmt: skip
def test_what_was_verified_in_words(given: Any, lines: list[str]) -> None:
    found = Verification("s", 2, 1_000, 1, **{"problems": ()} | given)
    assert str(found) == repr(found) == "\n".join(lines)
    assert found.ok is (not found.problems)
    shown = found.to_json()
    assert (shown["ok"], len(shown["problems"]), shown["judgement"]) == (
        found.ok, len(found.problems), None,
    )  # fmt: skip
    page = found._repr_html_()
    assert "No balances to compare." in page
    assert (f"{problem().where}</" in page) is bool(found.problems)
    assert list(found.to_frame()["rule"]) == [one.rule for one in found.problems]


@pytest.mark.parametrize("rule", ["file", "schema", "pointer", "anchor", "balance", "gone"])
def test_which_problems_are_damage(rule: str) -> None:
    found = Verification("s", 2, 3, 0, (problem(), problem(rule)))
    assert found.is_damaged is (rule not in ("balance", "gone"))
    assert not Verification("s", 2, 3, 0, ()).is_damaged


@pytest.mark.parametrize("alarming", [False, True])
def test_what_falls_short_is_not_ok(alarming: bool) -> None:
    from test_verdict_bounds import agrees, judged, stale

    judgement = judged(stale(), agrees()) if alarming else judged(agrees())
    found = Verification("s", 2, 3, 0, (), judgement=judgement)
    assert found.ok is not alarming
    assert str(found).splitlines()[1] == judgement.text
    assert judgement.text in found._repr_html_().replace("&#39;", "'")


@pytest.mark.parametrize(
    "change",
    [{"published_at": 1}, {"rows": 7}, {"query": {"x": "1"}}, {"watermark": "w"}],
    ids=["published_at", "rows", "query", "watermark"],
)
def test_the_hash_of_a_publication_is_of_all_that_is_said_of_it(change: dict[str, Any]) -> None:
    snapshot = fl.sample().snapshot("balances")
    *others, last = snapshot.publications
    changed = replace(snapshot, publications=[*others, replace(last, **change)])
    lanes = [table_lane(one) for one in (snapshot, changed)]
    assert len(lanes[0]) == len(snapshot.publications)
    assert [one == other for one, other in zip(*lanes, strict=True)] == [True] * len(others) + [
        False
    ]
