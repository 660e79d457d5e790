"""Texts that nobody is to see, and where they come from: private files and the system keyring."""

from __future__ import annotations

import hmac
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from fundlab.errors import SettingsError


class Secret:
    """A text that shows itself to nobody but the caller of ``reveal()``; cannot be pickled."""

    __slots__ = ("reveal",)
    reveal: Callable[[], str]

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "reveal", lambda: text)  # a closure: no attribute holds the text

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Secret is not copied, pickled or sent to another process")


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


def password_of_keyring(service: str, user: str) -> str | None:
    """What the system keyring holds for ``user`` of ``service``; ``None`` if nothing.

    Raises ``SettingsError`` when there is no keyring, or it is locked.
    """
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise SettingsError(
            "client_secret_keyring needs the package keyring: pip install 'fundlab[keyring]'"
        ) from None
    try:
        password: str | None = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        problem = f"{type(error).__name__}: {error}"
    else:
        return password
    raise SettingsError(f"the system keyring cannot be used ({problem}); unlock it, or give "
                        "client_secret or client_secret_file")  # fmt: skip
