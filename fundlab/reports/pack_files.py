"""The close pack as files, and its files made again."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import pandas as pd
from markupsafe import Markup

from fundlab.analysis.reconcile import judge
from fundlab.bank.reconciliation import Reconciliation, reconcile_files
from fundlab.base.errors import FundlabError, InvalidRequest, StoreError, install_command
from fundlab.base.paths import local_path
from fundlab.base.progress import progress_bar
from fundlab.display import Table
from fundlab.evidence.closes import Close, annotations_table, closes_of
from fundlab.evidence.table_store import TableStore
from fundlab.exports import Sheet, replacing, write_csv, write_workbook
from fundlab.reports.close import figures_of
from fundlab.reports.facts import versions
from fundlab.reports.inputs import Held, Seen
from fundlab.reports.pack import TOTAL, Pack, Section, pack_sections, read_pack
from fundlab.reports.page import HERE, TEMPLATES
from fundlab.reports.report_files import arrow_of, one_run_at_a_time, sheet_for_people
from fundlab.store.manifests import canonical
from fundlab.store.records import Record

MANIFEST: Final = "pack.json"
NO_PDF: Final = f"there is no PDF: it needs typst, {install_command('pdf')}"
_SUFFIXES: Final = (".html", ".pdf", ".xlsx", ".csv", ".json")
_MADE_WITH: Final = ("fundlab", "jinja2", "pandas", "pyarrow", "typst", "xlsxwriter")
_ROLES: Final = ("Prepared by", "Reviewed by", "Approved by")
_PAPER_WIDTH: Final = 760
"""Of A4 across, between its margins, in points."""
MAX_PAPER_ROWS: Final = 500
"""Of one table: some twelve pages. Typst takes 17 kB of memory and 0.1 ms for each cell."""
_FOLDED: Final = 24
"""Letters of a text that need not stand in one line."""


def write_pack(
    store: TableStore,
    close: Close,
    out: str | os.PathLike[str],
    statements: Sequence[str | Path] = (),
    sample: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Path]:
    """The pack of ``close`` in the folder ``out``: ``close-2026-10.html``, ``.pdf``, ``.xlsx``, one
    ``close-2026-10.<table>.csv`` for each table, the record ``close-2026-10.json``, and
    ``pack.json``, which names the SHA-256 of each, and those of other packs in the folder. Until
    all are written the pack that is there stays as it is. The same close gives the same bytes, as
    long as no more is annotated. Returns the files, the page first; without the extra ``pdf`` there
    is no PDF among them.

    ``statements`` are files of the bank; ``options`` are of ``fl.bank.read`` (``format``,
    ``asset``, ``opening``, ``columns``, ``dates``, ``decimal``) and ``fl.bank.reconcile``
    (``side``, ``account``, ``asset``, ``window``, ``fees``, ``balance``, and ``carried``, a path).
    The pack then has the bank's side, copies of the files,
    and ``close-2026-10.bank.json``, which the next period takes as ``carried``. Without
    ``statements`` those that the pack in ``out`` has stay.

    ``sample`` draws an audit sample into the pack: ``method``, ``size`` or ``precision``, ``seed``,
    ``asset`` and ``confidence`` of ``fl.audit.sample``. Without it that of the pack in ``out``
    stays.

    Raises ``InvalidRequest`` where ``pack.json`` of other packs, or a statement in ``out``, is
    damaged, and what reading and reconciling statements raises."""
    records = store.records()
    said = [one for one in records if one.kind == "annotate" or one.hash == close.hash]
    folder, stem = local_path(out, "out"), file_stem(close)
    options = json.loads(json.dumps(options, default=str))  # as reperform finds them
    if statements:  # read where they are first: what one lacks is said by its own name
        reconcile_files(store, statements, close.period, options, pin=close.pin)
        sources = {
            f"{stem}.bank-{number}-{Path(path).name}": Path(path)
            for number, path in enumerate(statements, 1)
        }
        bank: dict[str, Any] | None = {"statements": list(sources), "options": options}
        if options.get("carried") is not None:
            carried = f"{stem}.bank-carried.json"
            sources[carried] = Path(options["carried"])
            bank = {"statements": list(sources)[:-1], "options": options | {"carried": carried}}
    else:
        before = _read_manifest(folder).get(stem, {"bank": None})
        bank = before["bank"]
        sources = _bank_files(folder, bank)
        for name, path in sources.items():
            if not path.exists() or _sha256(path) != before["files"].get(name):
                raise InvalidRequest(f"{path} is not what {MANIFEST} names: give the statements")
    if sample is None:
        sample = _read_manifest(folder).get(stem, {}).get("sample")
    return _write(
        store, close, records[: records.index(said[-1]) + 1], folder, versions(_MADE_WITH), bank,
        sources, sample, with_pdf=_can_print(),
    )  # fmt: skip


def _bank_files(folder: Path, bank: Mapping[str, Any] | None) -> dict[str, Path]:
    """The copies in ``folder`` of what the bank's side of a pack was made of."""
    if bank is None:
        return {}
    carried = bank["options"].get("carried")
    return {name: folder / name for name in filter(None, [*bank["statements"], carried])}


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """What each pack in ``folder`` was made of and with, and its ``files``, by its stem."""
    try:
        packs = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        found: dict[str, dict[str, Any]] = {
            str(stem): {
                "close": str(pack["close"]),
                "records": int(pack["records"]),
                "last_record": str(pack["last_record"]),
                "versions": {str(name): str(found) for name, found in pack["versions"].items()},
                "bank": pack["bank"] and {
                    "statements": [str(name) for name in pack["bank"]["statements"]],
                    "options": dict(pack["bank"]["options"]),
                },
                **({"sample": dict(pack["sample"])} if pack.get("sample") else {}),
                "files": {str(name): str(digest) for name, digest in pack["files"].items()},
            }
            for stem, pack in packs.items()
        }  # fmt: skip
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidRequest(f"{MANIFEST} is not what was written") from None
    for pack in found.values():
        for name in (*pack["files"], *_bank_files(folder, pack["bank"])):
            if not name.startswith("close-") or Path(name).name != name:
                raise InvalidRequest(f"{MANIFEST} is not what was written: it names {name!r}")
    return found


def _write(
    store: TableStore,
    close: Close,
    records: list[Record],
    folder: Path,
    made_with: Mapping[str, str],
    bank: Mapping[str, Any] | None,
    sources: Mapping[str, Path],
    sample: Mapping[str, Any] | None,
    *,
    with_pdf: bool,
) -> list[Path]:
    """``sources`` are the files of the ``bank``, by their names in the pack. All files take their
    places when the last one is written, so that the pack there stays where one cannot be made."""
    stem = file_stem(close)
    written: dict[str, Path] = {}
    contents = {name: path.read_bytes() for name, path in sources.items()}
    with one_run_at_a_time(folder):
        packs = _read_manifest(folder)
        before = _bank_files(folder, packs.get(stem, {"bank": None})["bank"])
        with (
            ExitStack() as complete,
            progress_bar(4 + with_pdf, "steps", f"the pack of {close.period}") as bar,
        ):
            # The first that is begun takes its place last: it names what all the others hold.
            manifest = complete.enter_context(replacing(folder / MANIFEST))

            def new(name: str) -> Path:
                written[name] = complete.enter_context(replacing(folder / name))
                return written[name]

            with TemporaryDirectory() as scratch:
                for name, content in contents.items():  # what is read are the pack's very bytes
                    (Path(scratch) / name).write_bytes(content)
                reconciled = None
                if bank is not None:
                    reconciled = _reconciled(store, close, records, Path(scratch), bank)
                pack = read_pack(store, close, records, reconciled, sample)
            bar.update()
            sections = pack_sections(pack)
            new(f"{stem}.html").write_text(render_page(pack, sections), encoding="utf-8")
            bar.update()
            for name, content in contents.items():
                new(name).write_bytes(content)
            if with_pdf:
                new(f"{stem}.pdf").write_bytes(render_pdf(pack, sections))
                bar.update()
            write_workbook(pack_sheets(pack), new(f"{stem}.xlsx"))
            bar.update()
            for name, frame in pack.frames.items():
                write_csv(arrow_of(frame), new(f"{stem}.{name}.csv"))
            bar.update()
            if bank is not None and pack.bank is not None:
                said = pack.bank.to_json() | {"options": bank["options"]}
                said["files"] = {name: _sha256(written[name]) for name in bank["statements"]}
                new(f"{stem}.bank.json").write_bytes(_indented(said))
            new(f"{stem}.json").write_bytes(canonical(dict(close.content)) + b"\n")
            packs[stem] = {
                "close": close.hash,
                "records": len(records),
                "last_record": records[-1].hash,
                "versions": made_with,
                "bank": bank,
                **({} if sample is None else {"sample": dict(sample)}),
                "files": {name: _sha256(path) for name, path in sorted(written.items())},
            }
            manifest.write_bytes(_indented(packs))
            written[MANIFEST] = manifest
        for name in before.keys() - written:
            before[name].unlink(missing_ok=True)
    return [folder / name for name in written]


def _indented(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def pack_sheets(pack: Pack) -> list[Sheet]:
    """The tables of ``pack`` as the report shows its own, the verdict and the facts first."""
    facts = {"Verdict": pack.verdict, "Unexplained": pack.unexplained, **pack.facts}
    about = pd.DataFrame(facts.items(), columns=["fact", "value"])
    found = []
    for file, frame in {"close": about, **pack.frames}.items():
        name = file.replace("-", " ").capitalize()
        found.append(sheet_for_people(
            name, arrow_of(frame), pack.title if file == "close" else f"{name} · {pack.title}",
            pack.subtitle, labels=pack.labels, tz=pack.close.tz,
        ))  # fmt: skip
    return found


def _reconciled(
    store: TableStore, close: Close, records: list[Record], folder: Path, bank: Mapping[str, Any]
) -> Reconciliation:
    """The bank's side of the period as it was known at the close, decided by what ``records``
    say."""
    options = dict(bank["options"])
    if options.get("carried") is not None:
        options["carried"] = folder / options["carried"]
    return reconcile_files(
        store, [folder / name for name in bank["statements"]], close.period, options,
        pin=close.pin, decisions=annotations_table(records),
    )  # fmt: skip


def file_stem(close: Close) -> str:
    basis = "" if close.basis == "settled" else f"-{close.basis}"
    return f"close-{re.sub(r'[^0-9A-Za-z-]+', '_', close.period)}{basis}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ------------------------------------------------------------------------------- page and paper


def render_page(pack: Pack, sections: Sequence[Section]) -> str:
    """The ``sections`` of ``pack`` as one page: nothing is fetched, nothing runs."""
    page = TEMPLATES.get_template("close.html.j2").render(
        pack=pack,
        sections=sections,
        roles=_ROLES,
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
    )
    return re.sub(r"\n{2,}", "\n", page)


def render_pdf(
    pack: Pack, sections: Sequence[Section], format: Literal["pdf", "png"] = "pdf"
) -> Any:
    """The ``sections`` of ``pack`` on A4, its text in fonts that typst brings along; as ``png`` a
    list of pages. Needs the extra ``pdf``."""
    import typst

    printed = [
        {
            "name": section.name, "title": section.title, "lead": section.lead,
            "facts": list(section.facts.items()), "lines": section.lines,
            "tables": [_on_paper(view, MAX_PAPER_ROWS) for view in section.tables],
        }
        for section in sections
    ]  # fmt: skip
    content = {
        "title": pack.title, "subtitle": pack.subtitle, "headline": pack.headline,
        "verdict": pack.verdict, "tone": pack.tone, "roles": _ROLES,
        "footer": f"Pin {pack.close.pin} · record SHA-256 {pack.close.hash}",
        "sections": printed,
    }  # fmt: skip
    return typst.compile(
        (HERE / "close.typ").read_bytes(),
        sys_inputs={"pack": json.dumps(content)},
        ignore_system_fonts=True,  # the same bytes on every machine
        format=format,
        pdf_tags=False,  # ten times the size; who has it read aloud has the page
    )


def _can_print() -> bool:
    try:
        import typst  # noqa: F401
    except ImportError:
        return False
    return True


def _on_paper(view: Table, limit: int) -> dict[str, Any]:
    """The letters of a wide table are smaller, long texts are folded, and amounts may break after
    a comma where that is not enough."""
    shown, widths = view.rows[:limit], []
    for place, (head, _) in enumerate(view.columns):
        cells = [row[place] for row in shown]
        widths.append(max(
            len(head), *(len(one.text[: _FOLDED if one.style == "text" else None]) for one in cells)
        ))  # fmt: skip
    size = min(max((_PAPER_WIDTH - 8 * len(widths)) / (0.53 * sum(widths)), 4.5), 8)
    return {
        "caption": view.caption,
        "size": size,
        "columns": [{"label": head, "right": style == "number"} for head, style in view.columns],
        "rows": [
            [
                {
                    "text": cell.text.replace(",", ",\u200b"), "style": cell.style,
                    "strong": any(one.title == TOTAL for one in row),
                }
                for cell in row
            ]
            for row in shown
        ],
        "note": f"The first {limit:,} of {len(view.rows):,} rows; the page, the workbook and the "
                "CSV of this table have them all." if len(view.rows) > limit else "",
    }  # fmt: skip


# ------------------------------------------------------------------------------ once more


def reperform(store: TableStore, folder: str | os.PathLike[str]) -> list[str]:
    """What of the close packs in ``folder`` is not what ``store`` makes of their pins, a line for
    each difference, files first; none where every figure and byte is the same.

    Raises ``InvalidRequest`` where there is no pack, ``StoreError`` where a close is not in the
    store.
    """
    place = local_path(folder, "folder")
    if not (place / MANIFEST).exists():
        raise InvalidRequest(f"{place} holds no close pack: there is no {MANIFEST}")
    try:
        packs = _read_manifest(place)
    except InvalidRequest as damaged:
        return [str(damaged)]
    if not packs:
        return [f"{MANIFEST} is not what was written"]
    records = store.records()
    known = {one.hash: one for one in closes_of(records)}
    for stem, pack in packs.items():
        if pack["close"] not in known:
            raise StoreError(
                f"{store.path} has no close {pack['close'][:16]}, which {place} is the pack of"
            )
        if f"{stem}.pdf" in pack["files"] and not _can_print():
            raise InvalidRequest(f"{stem}.pdf cannot be made again: {NO_PDF}")
    seqs = {record.hash: place for place, record in enumerate(records, 1)}
    found = []
    for stem, pack in packs.items():
        seq = seqs.get(pack["last_record"])
        if seq != pack["records"]:
            there = "which the store does not have" if seq is None else f"which is record {seq}"
            found.append(
                f"{MANIFEST} says that {stem} was made when there were {pack['records']} records, "
                f"the last of them {pack['last_record'][:16]}, {there}"
            )
    files = {name: digest for pack in packs.values() for name, digest in pack["files"].items()}
    found += [
        f"{path.name} is of no pack that {MANIFEST} names"
        for path in sorted(place.glob("close-*"))
        if (path.suffix in _SUFFIXES or ".bank-" in path.name) and path.name not in files
    ]
    for name, digest in sorted(files.items()):
        path = place / name
        if not path.exists():
            found.append(f"{name} is missing")
        elif _sha256(path) != digest:
            found.append(f"{name} is not what {MANIFEST} names")
    try:
        with TemporaryDirectory() as scratch:
            for stem, pack in packs.items():
                close = known[pack["close"]]
                content, at = close.content, close.pin
                # The lines and open items of the record that the pin does not give.
                seen = Seen(judge(store, pin=at), Held(store, close.basis, pin=at))
                close = replace(close, seen=seen)
                again = figures_of(seen.rows, seen.judgement, close.period, close.tz, close.basis)
                for name in ("opening", "lines", "open_items"):
                    recorded, made = (
                        {canonical(row).decode(): None for row in side[name]}
                        for side in (content, again)
                    )
                    gone, new = (
                        next((row for row in one if row not in other), None)
                        for one, other in ((recorded, made), (made, recorded))
                    )
                    if gone is not None:
                        found.append(f"{name}: the record has {gone}, which the pin does not give")
                    if new is not None:
                        found.append(f"{name}: the pin gives {new}, which the record does not have")
                sources = _bank_files(place, pack["bank"])
                if not all(path.exists() for path in sources.values()):
                    found.append(f"{stem} was not made again: a file of the bank is missing")
                elif (seq := seqs.get(pack["last_record"])) is not None:
                    _write(
                        store, close, records[:seq], Path(scratch), pack["versions"],
                        pack["bank"], sources, pack.get("sample"),
                        with_pdf=f"{stem}.pdf" in pack["files"],
                    )  # fmt: skip
            for path in sorted(Path(scratch).iterdir()):
                other = place / path.name
                if other.exists() and path.read_bytes() != other.read_bytes():
                    found.append(_first_difference(path, other))
    except (FundlabError, OSError) as error:  # of the store, or of a statement
        found.append(str(error))
    if found:
        here = versions(_MADE_WITH)
        found += [
            f"{stem} was made with {name} {there}, and here is {here.get(name, 'none')}: another "
            "version may write the same in other bytes"
            for stem, pack in packs.items()
            for name, there in pack["versions"].items()
            if there != here.get(name)
        ]
    return found


def _first_difference(made: Path, found: Path) -> str:
    left, right = made.read_bytes(), found.read_bytes()
    pairs = zip(left, right, strict=False)
    at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    if made.suffix in (".pdf", ".xlsx"):
        return f"{found.name} differs from byte {at} on"
    line = left[:at].count(b"\n")
    rows = [side.split(b"\n")[line].decode(errors="replace")[:200] for side in (left, right)]
    return f"{found.name} differs at byte {at}, line {line + 1}: {rows[1]!r}, not {rows[0]!r}"
