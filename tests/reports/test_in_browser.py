"""The page in a real Chromium: silent, nothing wider than the window, nothing from outside alive.

The report is shown in frames of three widths within a page of our own, which looks at it and
writes down what it finds.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import test_report as examples
from matplotlib.colors import to_hex
from matplotlib.image import imread

from fundlab import charts, reports

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (360, 800, 1400)
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed here"),
]

LOOK = """<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>
const widths = WIDTHS, found = [];
const frames = widths.map(width => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:900px;border:0`;
  frame.src = "report.html";
  document.body.append(frame);
  return new Promise(done => frame.addEventListener("load", () => done([width, frame])));
});
Promise.all(frames).then(all => {
  for (const [width, frame] of all) {
    const page = frame.contentDocument, root = page.documentElement;
    const inside = e => e.closest(".scroll, svg, nav, .wide figure");
    const wide = [...page.body.querySelectorAll("*")].filter(
      e => e.getBoundingClientRect().right > width + 1 && !inside(e));
    const scrolled = [...page.querySelectorAll(".scroll, .wide figure")];
    const table = page.querySelector("#balances table"), head = table.tHead.rows[0].cells[2];
    const read = () => [...table.tBodies[0].rows].map(row => row.cells[2].textContent.trim());
    head.querySelector("button").click();
    const up = [head.getAttribute("aria-sort"), ...read()];
    head.querySelector("button").click();
    const down = [head.getAttribute("aria-sort"), ...read()];
    found.push({width, scroll: root.scrollWidth, wide: wide.map(e => e.outerHTML.slice(0, 80)),
      unreachable: scrolled.filter(e => e.tabIndex !== 0).length, up, down,
      targets: [...page.querySelectorAll("nav a")].map(a => page.querySelector(a.hash) !== null),
      handlers: [...page.querySelectorAll("*")].flatMap(e => [...e.attributes])
        .filter(a => a.name.startsWith("on")).length,
      links: [...page.querySelectorAll("[href], [src]")]
        .map(e => e.getAttribute("href") ?? e.getAttribute("src"))
        .filter(to => !to.startsWith("#")),
      scripts: page.scripts.length, images: page.images.length, title: page.title});
  }
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>""".replace("WIDTHS", str(list(WIDTHS)))

CHECK = """<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>
const frames = WIDTHS.map(width => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:900px;border:0`;
  frame.src = "checked.html";
  document.body.append(frame);
  return new Promise(done => frame.addEventListener("load", () => done(frame)));
});
(async () => {
  const found = [];
  for (const frame of await Promise.all(frames)) {
    const looked = await frame.contentWindow.axe.run();
    found.push({dark: matchMedia("(prefers-color-scheme: dark)").matches,
      rules: looked.passes.length, violations: looked.violations.map(
      one => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)])});
  }
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>""".replace("WIDTHS", str(list(WIDTHS)))


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("pages")

    def handler(*given: Any) -> Silent:
        return Silent(*given, directory=str(folder))

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def chromium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", f"--user-data-dir={folder}/profile", *arguments,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def seen(served: tuple[Path, str], tmp_path: Path, page: str) -> list[dict[str, Any]]:
    folder, _ = served
    (folder / "report.html").write_text(page, encoding="utf-8")
    return looked(served, tmp_path, LOOK)


def looked(
    served: tuple[Path, str], tmp_path: Path, look: str, *flags: str
) -> list[dict[str, Any]]:
    """What the page ``look`` writes down."""
    folder, address = served
    (folder / "look.html").write_text(look, encoding="utf-8")
    ran = chromium(
        tmp_path, "--virtual-time-budget=20000", *flags, "--dump-dom", f"{address}/look.html"
    )
    assert "CONSOLE" not in ran.stderr, ran.stderr[-2000:]
    found = re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found is not None
    wrote: list[dict[str, Any]] = json.loads(html.unescape(found[1]))
    return wrote


@cache
def hostile_page() -> str:
    return reports.render_html(examples.report_of(examples.HOSTILE))


def test_nothing_is_wider_than_the_window_and_tables_sort(
    served: tuple[Path, str], tmp_path: Path
) -> None:
    found = seen(served, tmp_path, examples.usual_page())
    assert [frame["width"] for frame in found] == list(WIDTHS)
    for frame in found:
        assert frame["scroll"] <= frame["width"]
        assert frame["wide"] == []
        assert frame["unreachable"] == 0
        assert all(frame["targets"])
        assert len(frame["targets"]) == 10
        assert frame["up"] == ["ascending", "0", "0"]
        assert frame["down"][0] == "descending"


def test_hostile_texts_make_no_element_attribute_or_script(
    served: tuple[Path, str], tmp_path: Path
) -> None:
    for frame in seen(served, tmp_path, hostile_page()):
        assert (frame["scripts"], frame["images"], frame["handlers"]) == (1, 0, 0)
        assert frame["links"] == []
        assert frame["title"].startswith("<script>alert(1)</script>")
        assert frame["wide"] == []
        assert frame["scroll"] <= frame["width"]


@pytest.mark.parametrize(
    "flags", [[], ["--blink-settings=preferredColorScheme=0"]], ids=["light", "dark"]
)
def test_axe_finds_nothing(served: tuple[Path, str], tmp_path: Path, flags: list[str]) -> None:
    """Accessible, by the rules of axe-core: it is added to the page, whose policy forbids it."""
    folder, _ = served
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    (folder / "axe.js").write_text(axe, encoding="utf-8")
    page, policies = re.subn(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>',
        '<script src="axe.js"></script>',
        examples.usual_page(),
    )
    assert policies == 1
    (folder / "checked.html").write_text(page, encoding="utf-8")
    for frame in looked(served, tmp_path, CHECK, *flags):
        assert frame["violations"] == []
        assert frame["rules"] > 15
        assert frame["dark"] is bool(flags)


def test_it_prints(tmp_path: Path) -> None:
    page, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(examples.usual_page(), encoding="utf-8")
    chromium(tmp_path, f"--print-to-pdf={paper}", page.as_uri())
    assert paper.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("theme", "flags", "ink"),
    [
        ("", ["--blink-settings=preferredColorScheme=0"], charts.LIGHT.ink),
        ('data-jp-theme-light="false"', [], charts.DARK.ink),
    ],
    ids=["light in a dark system", "dark in a light system"],
)
def test_a_chart_follows_the_notebook_it_is_shown_in(
    tmp_path: Path, theme: str, flags: list[str], ink: str
) -> None:
    chart: Any = charts.balance_course(examples.build().course)
    page, picture = tmp_path / "notebook.html", tmp_path / "notebook.png"
    page.write_text(
        f"<body {theme} style='margin:0;background:#808080'>{chart._repr_html_()}", encoding="utf-8"
    )
    chromium(tmp_path, *flags, f"--screenshot={picture}", page.as_uri())
    colours = [to_hex(pixel) for pixel in imread(str(picture))[:300, :500, :3].reshape(-1, 3)]
    assert colours[0] == "#808080"  # it has no paper of its own
    assert ink in colours
