"""``python -m fundlab`` is the command ``fundlab``."""

from fundlab.cli import main

main()
