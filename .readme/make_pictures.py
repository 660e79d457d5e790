"""The picture of the README: the report of the sample's October.

Run ``python .readme/make_pictures.py`` where the extra ``test`` and a Chromium are installed,
whenever what it shows has changed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

import fundlab as fl

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = fl.report(fl.sample(), "2026-10", out=folder, formats=["html"]).files[0]
        taken = Path(folder) / "taken.png"
        subprocess.run(  # noqa: S603 - the browser found above
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--window-size=1340,1050", f"--screenshot={taken}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
        colours = Image.open(taken).convert("RGB").quantize(256)
        colours.save(Path(__file__).with_name("report.png"), optimize=True)


if __name__ == "__main__":
    main()
