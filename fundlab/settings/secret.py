"""Texts that nobody is to see, and where they come from: private files and the system keyring.

And account numbers, of which everything that is shown has the last four characters at most
(``mask_number``). An answer that repeats a secret that was sent is masked by
``client.transport.without``.
"""

from __future__ import annotations

import hmac
import importlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote, quote_plus

from fundlab.base.errors import SettingsError, install_command

_NUMBER: Final = re.compile(
    r"account_?(numbers?|no)$|[._](iban|wallet_address)$|\.cubix\.account_id$",
    re.ASCII | re.IGNORECASE,
)
_HIDDEN: Final = "••••"
_SHOWN: Final = 4
_LONG_ENOUGH: Final = 8


class Masked:
    """A value that shows itself to nobody but the caller of ``reveal()``; cannot be pickled."""

    __slots__ = ("reveal",)
    reveal: Callable[[], Any]

    def __init__(self, value: Any) -> None:
        object.__setattr__(self, "reveal", lambda: value)  # a closure: no attribute holds it

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        return f"{type(self).__name__}('***')"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is not copied, pickled or sent to another process"
        )


class Secret(Masked):
    """A text that nobody is to see. ``spellings()`` are those of ``spellings_of``."""

    __slots__ = ("spellings",)
    reveal: Callable[[], str]
    spellings: Callable[[], frozenset[bytes]]

    def __init__(self, value: str) -> None:
        super().__init__(value)
        object.__setattr__(self, "spellings", Masked(spellings_of(value)).reveal)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))


def spellings_of(text: str) -> frozenset[bytes]:
    """A text as it is, and as JSON, a URL or a form has it."""
    as_json = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    lone = "surrogatepass"  # as a prompt or a variable may give it
    in_url = (quote(text, errors=lone), quote(text, "", errors=lone), quote_plus(text, errors=lone))
    spellings = {spelling.encode(errors=lone) for spelling in (text, *as_json, *in_url)}
    if all(ord(char) < 256 for char in text):
        spellings.add(text.encode("latin-1"))
    return frozenset(spellings)


def mask_number(number: str | None) -> str:
    """``••••6789``; of a number too short to hide, and of none, no character.

    Letters and digits count, spaces and dashes do not; an absent number is the empty text.

    >>> mask_number("GB33 BUKB 2020 1555 5555 55"), mask_number("12-34-567"), mask_number(None)
    ('••••5555', '••••', '')
    """
    if number is None:
        return ""
    characters = "".join(char for char in number if char.isalnum())
    return _HIDDEN + (characters[-_SHOWN:] if len(characters) >= _LONG_ENOUGH else "")


def without_numbers(value: Any, path: str = "") -> Any:
    """``value``, which stands at ``path``, with every account number in it masked, at any depth.

    >>> without_numbers({"wire": {"account_number": "000123456789", "memo": "rent"}})
    {'wire': {'account_number': '••••6789', 'memo': 'rent'}}
    """
    if isinstance(value, Mapping):
        return {name: without_numbers(member, f"{path}.{name}") for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [without_numbers(member, path) for member in value]
    if isinstance(value, str | int) and _NUMBER.search(path):
        return mask_number(str(value))
    return value


def read_private(path: Path, what: str) -> bytes:
    """The bytes of a file that only its owner may read; ``SettingsError`` otherwise."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & 0o077:
                raise SettingsError(
                    f"{what} {path} can be used by others (mode {mode & 0o777:03o}); "
                    f"run: chmod 600 {path}"
                )
            return file.read()
    except OSError as error:
        raise SettingsError(
            f"{what} {path} cannot be read: {error.strerror}; check the path"
        ) from None


def read_secret(path: Path, what: str) -> Secret:
    """The one line of a private file, without the byte order mark that editors may put first.

    Raises ``SettingsError`` as ``read_private`` does, and when there is not one line of UTF-8.
    """
    try:
        # no local variable holds the text: a traceback may show those
        lines = [
            Secret(line)
            for line in read_private(path, what).decode("utf-8-sig").strip().splitlines() or [""]
        ]
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 1:
        fault = f"has {len(lines)} lines" if lines else "is not text in UTF-8"
        raise SettingsError(f"{what} {path} {fault}; write the secret there as one line of UTF-8")
    return lines[0]


def password_of_keyring(service: str, user: str) -> str | None:
    """What the system keyring holds for ``user`` of ``service``; ``None`` if nothing.

    Raises ``SettingsError`` when there is no keyring, or it is locked.
    """
    password: str | None = _with_keyring("get_password", service, user)
    return password


def into_keyring(service: str, user: str, secret: Secret) -> None:
    """Keep ``secret`` in the system keyring. Raises ``SettingsError`` as reading it does."""
    _with_keyring("set_password", service, user, secret)


def _with_keyring(action: str, *given: str | Secret) -> Any:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise SettingsError(
            f"client_secret_keyring needs the package keyring: {install_command('keyring')}"
        ) from None
    try:
        return getattr(keyring, action)(
            *(one.reveal() if isinstance(one, Secret) else one for one in given)
        )
    except keyring.errors.KeyringError as error:
        problem = f"{type(error).__name__}: {error}"
    raise SettingsError(f"the system keyring cannot be used ({problem}); unlock it, or give "
                        "client_secret or client_secret_file")  # fmt: skip
