"""The credentials that a sandbox is started with, as a team fixes them: by hand or in a file.

A file is TOML, one table for each credential; the first is the one that is announced:

    [treasury]                    # the client id, unless client_id says otherwise
    client_secret = "for-tests"   # a fresh one where it is left out
    scopes = ["transfer:read_transfer", "events:read_event"]  # all where it is left out

    [payer]
    signing_key = "payer.pem"     # private or public, beside the file; requests must be signed
    signing_key_id = "payer-key"
    new_customer = true           # with a profile of its own, apart from the others

They are the sandbox's own: nothing but it takes them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fundlab.base.errors import SandboxError
from fundlab.models import SCOPES
from fundlab.sandbox.refusals import first_fault

_PRINTABLE: Final = r"^[!-~]([ -~]*[!-~])?$"
_Text = Annotated[str, Field(pattern=_PRINTABLE, max_length=200)]


class Wanted(BaseModel):
    """A credential as it should be; what is ``None`` is chosen by the sandbox."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    client_id: _Text
    client_secret: Annotated[_Text | None, Field(repr=False)] = None
    scopes: tuple[str, ...] = SCOPES
    signing_key: Path | None = None
    signing_key_id: _Text | None = None
    new_customer: bool = False

    @property
    def key_id(self) -> str:
        """Under which the signing key is registered."""
        return self.signing_key_id or f"{self.client_id}-key"


def wanted(what: str, **members: Any) -> Wanted:
    """One credential. Raises ``SandboxError`` that begins with ``what`` and quotes no value."""
    try:
        return Wanted.model_validate(members)
    except ValidationError as error:
        raise SandboxError(what + ": ".join(first_fault(error, Wanted))) from None


def read_credentials(path: Path) -> tuple[Wanted, ...]:
    """The credentials in a file. Raises ``SandboxError`` naming the table and the member."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SandboxError(f"the credentials {path} cannot be read: {error.strerror}") from None
    except ValueError:  # its message could quote a secret
        raise SandboxError(f"the credentials {path} are not TOML in UTF-8") from None
    credentials = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise SandboxError(f"{path}: {name} must be a table: [{name}]")
        credential = wanted(f"{path}: [{name}] ", **{"client_id": name, **table})
        if credential.signing_key is not None:
            credential = credential.model_copy(
                update={"signing_key": path.parent / credential.signing_key}
            )
        credentials.append(credential)
    if not credentials:
        raise SandboxError(f"{path} has no credential; write a table for each, such as [treasury]")
    if len({credential.client_id for credential in credentials}) < len(credentials):
        raise SandboxError(f"{path} has two credentials of one client_id")
    return tuple(credentials)
