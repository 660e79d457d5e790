"""The tests here borrow the stand-in for the service from the folder above."""

from collections.abc import Iterator
from decimal import Context, localcontext

import pytest


@pytest.fixture(autouse=True)
def _many_digits(_by_itself: None) -> Iterator[None]:
    """What is expected is calculated here by hand, and exactly."""
    with localcontext(Context(prec=60)):
        yield
