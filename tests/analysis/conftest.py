"""The tests here borrow the stand-in for the service from the folder above."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
