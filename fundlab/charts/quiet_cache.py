"""Imported before matplotlib: a job without a home it may write to has nothing to mend.

matplotlib then keeps its cache in a temporary folder and makes it anew, and says so at each start,
which cron would mail every morning. Its other warnings stay.
"""

import logging

_ABOUT_THE_CACHE = (
    "mkdir -p failed for path", "%s is not a writable directory",
    "Matplotlib created a temporary cache directory", "Matplotlib is building the font cache",
)  # fmt: skip


for _name in ("matplotlib", "matplotlib.font_manager"):
    logging.getLogger(_name).addFilter(
        lambda record: not str(record.msg).startswith(_ABOUT_THE_CACHE)
    )
