"""Where the service is, who asks, and how it signs: from keywords, the environment and a file.

A keyword beats ``FUNDLAB_…`` in the environment, which beats the profile's table in ``config.toml``
of the user's configuration folder. Secrets are wrapped: no repr, ``vars``, pickle or copy has them.
Until it is checked, every value is, and no message quotes one: it may be a secret in a wrong place.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self, SupportsFloat, TypedDict

from platformdirs import user_config_dir, user_data_dir

from fundlab.errors import SettingsError, with_likely
from fundlab.secret import Masked, Secret, password_of_keyring, read_private, read_secret
from fundlab.setting_values import (
    REQUIRED,
    bundle_of_environment,
    converted,
    existing_file,
    invalid,
    is_loopback,
)

log = logging.getLogger(__name__)

ENVIRONMENT_PREFIX: Final = "FUNDLAB_"
CONFIG_NAME: Final = "config.toml"
DEFAULT_STORE: Final = Path("data/store")


def _default_journal() -> Path:
    return Path("/", user_data_dir("fundlab"), "journal")  # absolute where there is no home too


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything ``connect()`` needs, checked. Raises ``SettingsError`` on anything unsafe.

    ``base_url`` and ``auth_url`` are ``https://`` (``http://`` for loopback only). ``signing_key``
    is the path of a PEM private key that only its owner can read; ``signing_keys`` maps key ids to
    such paths, of which ``signing_key_id`` picks one. ``sandbox`` says that a service elsewhere
    than on loopback is no production: the one whose ``base_url`` stands beside it, in the same
    profile, say. ``trust_env`` obeys proxy variables, but for loopback, and ``REQUESTS_CA_BUNDLE``
    or ``SSL_CERT_FILE`` where there is no ``ca_bundle``. Times are in seconds,
    ``rate_limit`` in requests a second (``None``: as fast as the service allows).
    ``journal`` is the folder of the journals of payments, one for each service and credential; by
    default it is in the user's data folder, so that all stores share it. ``withdrawal_limit`` (of
    one withdrawal) and ``daily_withdrawal_limit`` (of a UTC day: what the journal holds and, where
    money is real, every other withdrawal that the service shows) are amounts without fees (of one
    by ``total`` that total, until its fee is known); ``allowed_accounts`` are the fiat accounts
    that may be paid: a list, or text with commas. ``None`` sets no limit.

    >>> settings = fl.Settings(
    ...     base_url="https://api.example.com",
    ...     auth_url="https://auth.example.com",
    ...     client_id="desk",
    ...     client_secret="never shown",
    ... )
    >>> settings.client_secret, settings.read_timeout
    (Secret('***'), 30.0)
    """

    base_url: str
    auth_url: str
    client_id: str
    client_secret: Secret
    signing_key: Path | None = None
    signing_key_id: str | None = None
    signing_key_password: Secret | None = None
    signature_header: str = "Service-Signature"
    signature_prefix: str = "service/"
    store: Path | str = DEFAULT_STORE
    journal: Path = field(default_factory=_default_journal)
    sandbox: bool = False
    trust_env: bool = False
    ca_bundle: Path | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    call_timeout: float = 120.0
    rate_limit: float | None = None
    withdrawal_limit: Decimal | None = None
    daily_withdrawal_limit: Decimal | None = None
    allowed_accounts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if (self.signing_key is None) != (self.signing_key_id is None):
            raise SettingsError(
                "signing_key and signing_key_id go together: the path of the private key and the "
                "id under which its public key is registered on the credential"
            )
        for name in _FIELDS:
            value = getattr(self, name)
            if value is not None or name in REQUIRED:
                object.__setattr__(self, name, _accepted(converted, name, value))
        if self.trust_env and self.ca_bundle is None:
            object.__setattr__(self, "ca_bundle", bundle_of_environment())

    @property
    def is_production(self) -> bool:
        """Whether money is real: neither loopback nor marked ``sandbox``."""
        return not (self.sandbox or is_loopback(self.base_url))

    @classmethod
    def load(
        cls,
        profile: str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        config_file: Path | None = None,
        keyring_password: Callable[[str, str], str | None] | None = None,
        **overrides: Any,
    ) -> Self:
        """Settings from keywords, then the environment, then the profile's table of the file.

        ``profile`` (or ``FUNDLAB_PROFILE``) names a table of ``config.toml``. The secret may also
        come from ``client_secret_file`` (a file only its owner can read) or from the system keyring
        (``client_secret_keyring`` names the entry, under the client id as user). ``environ``,
        ``config_file`` and ``keyring_password`` replace the process's own.

        Raises ``SettingsError`` naming what is missing, unknown, malformed or unsafe.
        """
        overrides = masked({name: v for name, v in overrides.items() if v is not None})
        environ = os.environ if environ is None else environ
        found, strays = _from_environment(environ), _strays(environ)
        if "base_url" not in found and found.pop("sandbox", None) is not None:
            log.warning("%s has no effect: no base_url stands beside it", _variable("sandbox"))
        del environ  # from here on no local of ours holds a plain secret
        profile = profile or _profile(found)
        path = config_file or Path(user_config_dir("fundlab")) / CONFIG_NAME
        given = _from_file(path, profile) if profile else {}
        given = _overlaid(_overlaid(given, found), overrides)
        unknown = sorted(set(given) - _KNOWN)
        if unknown:
            raise SettingsError(
                f"unknown setting{'s' if len(unknown) > 1 else ''} "
                f"{', '.join(with_likely(name, _KNOWN) for name in unknown)}; "
                f"known are {', '.join(sorted(_KNOWN))}"
            )
        _pick_signing_key(given)
        _find_secret(given, keyring_password or password_of_keyring)
        _demand_required(given, path, profile, strays)
        _warn_of(strays)
        return cls(**given)


def store_folder(
    environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> Path | str:
    """The store that ``connect()`` would name, a folder or an address, whatever else is missing."""
    folder: Path | str = _place("store", DEFAULT_STORE, environ, config_file)
    return folder


def journal_folder(
    environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> Path:
    """The folder of journals that ``connect()`` would name, whatever else is missing."""
    folder: Path = _place("journal", _default_journal(), environ, config_file)
    return folder


def _place(
    name: str, default: Path, environ: Mapping[str, str] | None, config_file: Path | None
) -> Any:
    environ = os.environ if environ is None else environ
    found, strays = _from_environment(environ), _strays(environ)
    del environ
    _warn_of(strays)
    profile = _profile(found)
    path = config_file or Path(user_config_dir("fundlab")) / CONFIG_NAME
    given = _overlaid(_from_file(path, profile) if profile else {}, found)
    return _accepted(converted, name, given.get(name, default))


class SettingKeywords(TypedDict, total=False):
    """What ``connect()`` takes: the fields of ``Settings``, and the other ways to name a secret."""

    base_url: str | None
    auth_url: str | None
    client_id: str | None
    client_secret: str | Secret | None
    client_secret_file: str | PathLike[str] | None
    client_secret_keyring: str | None
    signing_key: str | PathLike[str] | None
    signing_keys: Mapping[str, str | PathLike[str]] | None
    signing_key_id: str | None
    signing_key_password: str | Secret | None
    signature_header: str | None
    signature_prefix: str | None
    store: str | PathLike[str] | None
    journal: str | PathLike[str] | None
    sandbox: bool | None
    trust_env: bool | None
    ca_bundle: str | PathLike[str] | None
    connect_timeout: SupportsFloat | None
    read_timeout: SupportsFloat | None
    call_timeout: SupportsFloat | None
    rate_limit: SupportsFloat | None
    withdrawal_limit: str | int | Decimal | None
    daily_withdrawal_limit: str | int | Decimal | None
    allowed_accounts: str | Sequence[str] | None


_FIELDS: Final = tuple(one.name for one in fields(Settings))
_KNOWN: Final = {*_FIELDS} | {"client_secret_file", "client_secret_keyring", "signing_keys"}
_ALTERNATIVES: Final = (
    {"client_secret", "client_secret_file", "client_secret_keyring"},
    {"signing_key", "signing_keys"},
)


def _from_file(path: Path, profile: str) -> dict[str, Any]:
    tables = _tables(_read_profiles(path, profile))
    if tables is None:
        raise SettingsError(f"{path} is not TOML in UTF-8")
    if profile not in tables:
        names = ", ".join(f"[{name}]" for name in tables) or "none"
        raise SettingsError(f"{path} has no table [{profile}]; it has {names}")
    return tables[profile]


def _read_profiles(path: Path, profile: str) -> bytes:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise SettingsError(
            f"profile {profile!r} is looked for in {path}, which does not exist; write a table "
            f"[{profile}] there (mode 600), or leave the profile out"
        ) from None
    except OSError:
        pass  # reading it says what is wrong
    return read_private(path, "the settings file")


def _tables(raw: bytes) -> dict[str, dict[str, Any]] | None:
    try:
        content = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):  # message and context could quote a secret
        return None
    return {name: masked(table) for name, table in content.items() if isinstance(table, dict)}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    names = _variables()
    return masked({names[key]: value for key, value in environ.items() if key in names and value})


def _strays(environ: Mapping[str, str]) -> list[str]:
    """Variables of our prefix that are no setting."""
    known = _variables().keys() | {"FUNDLAB_LOG"}
    return sorted(key for key in environ if key.startswith(ENVIRONMENT_PREFIX) and key not in known)


def _variables() -> dict[str, str]:
    return {_variable(name): name for name in (_KNOWN - {"signing_keys"}) | {"profile"}}


def _variable(name: str) -> str:
    return f"{ENVIRONMENT_PREFIX}{name.upper()}"


def masked(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values``, each of them wrapped: what they are is known only when they are checked."""
    return {name: _masked(value) for name, value in values.items()}


def _masked(value: Any) -> Masked:
    return value if isinstance(value, Masked) else Masked(value)


def _accepted(check: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    """What ``check`` makes of ``value``. Its frames, which hold the value, are in no traceback."""
    value = _masked(value)
    try:
        return check(name, value if isinstance(value, Secret) else value.reveal())
    except SettingsError as error:
        problem = str(error)
    raise SettingsError(problem)


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, ``above`` first: also where it gives the same thing under another name.

    That ``below`` is a sandbox is said of its own service, not of another that ``above`` names.
    """
    hidden = {name for group in _ALTERNATIVES if group & above.keys() for name in group}
    was, now = (_address(layer) for layer in (below, above))
    if now is not None and now != was:
        hidden.add("sandbox")
    return {name: value for name, value in below.items() if name not in hidden} | dict(above)


def _address(layer: Mapping[str, Masked]) -> str | None:
    url = layer.get("base_url")
    return None if url is None else str(url.reveal()).rstrip("/").lower()


def _profile(found: dict[str, Any]) -> str | None:
    name = found.pop("profile", None)
    return None if name is None else str(name.reveal())


def _pick_signing_key(given: dict[str, Any]) -> None:
    keys = given.pop("signing_keys", None)
    if keys is None or "signing_key" in given:
        return
    chosen = given.get("signing_key_id", Masked(None))
    given["signing_key"] = _accepted(_key_named, "signing_keys", Masked((keys, chosen)))


def _key_named(name: str, keys_and_id: tuple[Masked, Masked]) -> Masked:
    keys, chosen = (part.reveal() for part in keys_and_id)
    if not isinstance(keys, Mapping):
        raise invalid(name, keys, "a table of key ids and paths of PEM private keys")
    if not isinstance(chosen, str) or chosen not in keys:
        raise SettingsError(
            f"signing_key_id is none of signing_keys: give one of {', '.join(map(str, keys))}"
        )
    return Masked(keys[chosen])


def _find_secret(given: dict[str, Any], keyring: Callable[[str, str], str | None]) -> None:
    file = given.pop("client_secret_file", None)
    entry = given.pop("client_secret_keyring", None)
    if "client_secret" in given:
        return
    if file is not None:
        given["client_secret"] = _accepted(_secret_of_file, "client_secret_file", file)
    elif entry is not None:
        service, user = str(entry.reveal()), str(given.get("client_id", Masked("")).reveal())
        found = keyring(service, user)
        if found is None:
            raise SettingsError(
                f"the keyring has no password for service {service!r} and user {user!r}; "
                f"store it with: keyring set {service} {user}"
            )
        given["client_secret"] = Secret(found)


def _secret_of_file(name: str, file: object) -> Secret:
    return read_secret(existing_file(name, file), name)


def _demand_required(
    given: Mapping[str, Any], path: Path, profile: str | None, strays: list[str]
) -> None:
    missing = [name for name in REQUIRED if name not in given]
    if not missing:
        return
    named = ", ".join(f"{name} ({_variable(name)})" for name in missing)
    where = f"[{profile}] of {path}" if profile else f"a profile of {path}"
    stray = "".join(f"; {_about_stray(name)}" for name in strays)
    raise SettingsError(
        f"missing: {named}; give them as keywords of connect(), in the environment variables "
        f"named, or in {where}{stray}"
    )


def _about_stray(variable: str) -> str:
    return f"{with_likely(variable, _variables())} is set, but is no setting"


def _warn_of(strays: list[str]) -> None:
    for variable in strays:
        log.warning("%s: it has no effect", _about_stray(variable))
