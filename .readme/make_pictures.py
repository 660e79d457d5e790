"""The pictures of the README: a report, the card of a payment, a page of the documentation.

Run ``python .readme/make_pictures.py`` where the extras ``docs`` and ``test`` and a Chromium
are installed, whenever what they show has changed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

import fundlab as fl
from fundlab.cli import root_command
from fundlab.docs import build

HERE = Path(__file__).parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
CARD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A payment</title>
<body style="margin: 14px; color: #1b2330; width: 740px">{card}</body></html>"""


def picture(page: Path, name: str, width: int, height: int) -> None:
    """The top of ``page``, in 256 colours."""
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder) / "taken.png"
        subprocess.run(  # noqa: S603 - the browser found above
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={width},{height}", f"--screenshot={taken}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
        colours = Image.open(taken).convert("RGB").quantize(256)
    colours.save(HERE / name, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        written = fl.report(fl.sample(), "2026-10", out=folder, formats=["html"])
        picture(written.files[0], "report.png", 1100, 1250)

        with fl.sandbox.serve(seed=7, transfers=2_000, clock="manual", port=8077) as sandbox:
            client = sandbox.connect(journal=folder / "journal")
            accounts = client.list_fiat_accounts()
            account = next(a for a in accounts if a.status == "APPROVED" and not a.identity_id)
            plan = fl.plan_withdrawal(
                client,
                profile_id=sandbox.profile_ids[0],
                fiat_account_id=account.id,
                amount="100.00",
                ref_id="invoice-7",
            )
        (folder / "card.html").write_text(CARD.format(card=plan._repr_html_()), encoding="utf-8")
        picture(folder / "card.html", "payment.png", 770, 420)

        site = build(root_command(), folder / "site")
        picture(site.parent / "notebooks" / "01-first-hour.html", "notebook.png", 1300, 1000)


if __name__ == "__main__":
    main()
