"""Decimal columns from text and to text, a column at a time.

Text is an amount as section 2 of the interface writes it, ``^[0-9]*\\.?[0-9]+$`` in full, with an
optional sign, at most 64 characters and at most 20 digits before and 18 after the point.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.decimals.int128 import SCALE, Bools, Ints, Units, blocks, high, low
from fundlab.decimals.wide import Wide, divide_small, split

ARROW_TYPE = pa.decimal128(38, SCALE)

MAX_LENGTH = 64
INTEGER_DIGITS = 20

_AMOUNT = re.compile(r"[+-]?(?:([0-9]+)|([0-9]*)\.([0-9]+))")
_WITHIN = r"^[+-]?([0-9]{1,20}|[0-9]{0,20}\.[0-9]{1,18})$"

_ALPHABET = np.zeros(256, bool)
_ALPHABET[list(b"0123456789.+-")] = True

_TRIPLES = np.frombuffer(b"".join(b"%03d" % i for i in range(1000)), np.uint8).reshape(1000, 3).T
_TRIPLES = np.ascontiguousarray(_TRIPLES)  # the three digits of 000 to 999, by place
_WHOLE = 21  # columns of digits before the point: thirteen triples hold 38 digits and one more
_POINT = 1 + _WHOLE  # after a column for the sign
_WIDTH = _POINT + 1 + SCALE


def parse(strings: pa.Array) -> tuple[Units, Bools]:
    """(units, missing) of an Arrow array of text.

    Raises ValueError for text that is not an amount with an optional sign, OverflowError for one
    with more than 20 digits before the point; both name the text and its position.
    """
    strings = pc.cast(strings, pa.large_string())
    try:
        if not _looks_fine(strings):
            raise _first_error(strings)
        return from_arrow_buffers(pc.cast(strings, ARROW_TYPE))
    except pa.ArrowInvalid:
        raise _first_error(strings) from None


def parse_one(text: str, position: int | None = None) -> int:
    """One amount as an integer, value x 10**18; raises as `parse` does."""
    at = "" if position is None else f" at position {position}"
    match = _AMOUNT.fullmatch(text)
    if match is None or len(text) > MAX_LENGTH:
        raise ValueError(
            f"cannot read {text[:80]!r}{at} as a decimal: expected at most {MAX_LENGTH} "
            "characters, digits with an optional sign and point, such as '-1442725.09'"
        )
    whole, fraction = match[1] or match[2] or "", match[3] or ""
    if len(whole.lstrip("0")) > INTEGER_DIGITS:
        raise OverflowError(f"{text!r}{at} has more than 20 digits before the point")
    if len(whole) > INTEGER_DIGITS or len(fraction) > SCALE:
        raise ValueError(
            f"{text!r}{at} has {len(whole)} digits before and {len(fraction)} after the point: "
            f"a decimal column takes at most {INTEGER_DIGITS} and {SCALE}"
        )
    value: int = int(whole or "0") * 10**SCALE + int(fraction.ljust(SCALE, "0"))
    return -value if text[0] == "-" else value


def format_one(value: int) -> str:
    """value / 10**18 without padding zeros or an exponent."""
    whole, fraction = divmod(abs(value), 10**SCALE)
    digits = f"{whole}.{fraction:0{SCALE}}".rstrip("0").rstrip(".")
    return f"-{digits}" if value < 0 else digits


def to_text(units: Units, missing: Bools) -> pa.Array:
    """Arrow large strings without padding zeros or exponents: `1442725.09`, `0.15`, `-1.5`."""
    pieces, lengths = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)]
    for rows in blocks(len(units)):
        text, length = _block_text(units[rows], missing[rows])
        pieces.append(text)
        lengths.append(length)
    offsets = np.cumsum(np.concatenate(lengths))
    return pa.LargeStringArray.from_buffers(
        len(units),
        pa.py_buffer(offsets),
        pa.py_buffer(np.concatenate(pieces)),
        validity(missing),
    )


def validity(missing: Bools) -> pa.Buffer | None:
    """Arrow's validity bitmap, or None where nothing is missing."""
    return pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None


def from_arrow_buffers(array: pa.Array) -> tuple[Units, Bools]:
    """(units, missing) of a decimal128(38, 18) array, sharing its value buffer, read-only."""
    count = len(array)
    missing = np.zeros(count, bool)
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False).copy()
    if count == 0:
        return np.zeros((0, 2), np.uint64), missing
    start = array.offset * 2
    words = np.frombuffer(array.buffers()[1], np.uint64, count=start + 2 * count)[start:]
    words.flags.writeable = False  # Arrow lends also buffers that could be written to
    return words.reshape(-1, 2), missing


def _looks_fine(strings: pa.Array) -> bool:
    """What Arrow's own parser lets pass and we don't: exponents, `1.`, endless zeros."""
    present = strings.drop_null()
    if len(present) == 0:
        return True
    offsets = np.frombuffer(present.buffers()[1], np.int64)
    offsets = offsets[present.offset : present.offset + len(present) + 1]
    characters = np.frombuffer(present.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    if lengths.min() == 0 or lengths.max() > MAX_LENGTH:
        return False
    last = characters[offsets[1:] - 1]
    if not ((last >= ord("0")) & (last <= ord("9"))).all():
        return False
    if not _ALPHABET[characters[offsets[0] : offsets[-1]]].all():
        return False
    long = np.flatnonzero(lengths > SCALE)
    return not len(long) or pc.all(pc.match_substring_regex(present.take(long), _WITHIN)).as_py()


def _first_error(strings: pa.Array) -> Exception:
    for position, text in enumerate(strings.to_pylist()):
        if text is not None:
            try:
                parse_one(text, position)
            except (ValueError, OverflowError) as error:
                return error
    return AssertionError("Arrow refuses text that parse_one reads")  # pragma: no cover


def _block_text(units: Units, missing: Bools) -> tuple[npt.NDArray[np.uint8], Ints]:
    count = len(units)
    limbs, minus = split(units)
    cells = np.empty((count, _WIDTH), np.uint8)
    cells[:, 0] = ord("0")
    cells[:, _POINT] = ord(".")
    for triple, digits in enumerate(_triples(limbs, count)):  # from the last
        right = _WIDTH - 3 * triple
        right -= right <= _POINT + 1  # skip the point
        for column in range(3):
            cells[:, right - 3 + column] = _TRIPLES[column].take(digits)
    filled = cells != ord("0")
    filled[:, _POINT - 1] = True  # one digit before the point stays
    first = filled[:, :_POINT].argmax(axis=1)
    last = _WIDTH - filled[:, ::-1].argmax(axis=1)
    last[last == _POINT + 1] = _POINT  # no digits after the point: no point
    signed = np.flatnonzero(minus)
    first[signed] -= 1
    cells[signed, first[signed]] = ord("-")
    last[missing] = first[missing]
    used = slice(first.min(), last.max())
    columns = np.arange(_WIDTH, dtype=np.int8)[used]
    kept = columns >= first[:, None].astype(np.int8)
    kept &= columns < last[:, None].astype(np.int8)
    return cells[:, used][kept], (last - first).astype(np.int64)


def _triples(limbs: Wide, count: int) -> list[npt.NDArray[np.intp]]:
    """Thirteen groups of three digits, lowest first."""
    out = []
    for _ in range(5):
        limbs, nine = divide_small(limbs, 10**9)
        rest = np.broadcast_to(nine, count).astype(np.intp)
        for _ in range(3):
            out.append(rest % 1000)
            rest //= 1000
    return out[:13]


def is_tiny(units: Units) -> Bools:
    """Whether Decimal would print the value with an exponent: 0 < |value| < 10**-6."""
    magnitude = np.where(high(units) < 0, np.uint64(0) - low(units), low(units))
    short = (high(units) == 0) | (high(units) == -1)
    tiny: Bools = short & (magnitude > 0) & (magnitude < 10 ** (SCALE - 6))
    return tiny
