"""The site's search, in a real Chromium, on files: 25 questions of an analyst find their page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed here"),
]
QUERIES = {
    "fees by profile": "reference/fees",
    "balance on a date": "reference/balances",
    "month-end balances": "recipes/balances",
    "why does a balance not match": "recipes/proving",
    "explain a break": "reference/reconcile",
    "close a month": "commands/close",
    "bank reconciliation": "commands/bank",
    "match bank statement lines": "reference/bank",
    "export to excel": "recipes/files",
    "pay a supplier by wire": "reference/plan_withdrawal",
    "avoid paying twice": "notebooks/04-paying-safely",
    "run every morning": "guides/schedules",
    "names of profiles": "commands/profiles",
    "how long do wires take to settle": "recipes/flows",
    "conversions by quarter": "recipes/flows",
    "counterparties": "reference/flows",
    "pending transfers": "recipes/flows",
    "net flow by month": "reference/flows",
    "crypto withdrawal fee quote": "reference/quote_fee",
    "double entry books for beancount": "reference/books",
    "backup the store": "guides/backups",
    "store in s3": "guides/remote-stores",
    "sandbox in pytest": "guides/the-sandbox-for-a-team",
    "query with sql": "reference/sql",
    "rolling sum of decimals": "recipes/decimals",
}
FINDS = """<!doctype html><meta charset="utf-8"><pre id="all"></pre>
<script src="STATIC/search_pages.js"></script><script src="STATIC/search.js"></script>
<script>document.getElementById("all").textContent = JSON.stringify(
  QUERIES.map(query => find(query).slice(0, 3).map(one => one.page)));</script>"""


def page_of(url: str, profile: Path) -> str:
    """The page once its scripts have run."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", f"--user-data-dir={profile}", "--dump-dom", url],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


def test_each_of_25_questions_finds_its_page_among_the_first_three(
    site: Path, tmp_path: Path
) -> None:
    page = tmp_path / "finds.html"
    script = FINDS.replace("STATIC", (site / "_static").as_uri())
    page.write_text(script.replace("QUERIES", json.dumps(list(QUERIES))), encoding="utf-8")
    found = re.search(r'<pre id="all">(.*?)</pre>', page_of(page.as_uri(), tmp_path / "profile"))
    assert found is not None
    first = dict(zip(QUERIES, json.loads(found[1]), strict=True))
    assert len(first) == 25
    assert {
        query: first[query] for query, page in QUERIES.items() if page not in first[query]
    } == {}


def test_a_file_shows_what_it_found_with_the_words_around_it(site: Path, tmp_path: Path) -> None:
    shown = page_of(f"{(site / 'search.html').as_uri()}?q=fees+by+profile", tmp_path)
    results = re.findall(r'<div class="found">(.*?)</div>', shown, re.DOTALL)
    assert len(results) >= 3
    assert any('href="reference/fees.html#' in one for one in results[:3])
    assert "<mark>" in results[0]
    assert all(len(re.sub("<.*?>", "", one)) > 40 for one in results[:3])
