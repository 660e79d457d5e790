"""Where the service is, who asks, and how it signs: from keywords, the environment and a file.

A keyword beats ``FUNDLAB_…`` in the environment, which beats the profile's table in ``config.toml``
of the user's configuration folder. Secrets are wrapped: no repr, ``vars``, pickle or copy has them.
"""

from __future__ import annotations

import hmac
import importlib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NoReturn, Self
from urllib.parse import SplitResult, urlsplit

from platformdirs import user_config_dir

from fundlab.errors import SettingsError, shorten

ENVIRONMENT_PREFIX: Final = "FUNDLAB_"
CONFIG_NAME: Final = "config.toml"
_REQUIRED: Final = ("base_url", "auth_url", "client_id", "client_secret")
_NUMBERS: Final = ("connect_timeout", "read_timeout", "call_timeout", "rate_limit")
_LARGEST_NUMBER: Final = 1_000_000
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
_PLAIN_HOST = re.compile(r"[a-z0-9.:-]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")


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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything ``connect()`` needs, checked. Raises ``SettingsError`` on anything unsafe.

    ``base_url`` and ``auth_url`` are ``https://`` (``http://`` for loopback only). ``signing_key``
    is the path of a PEM private key that only its owner can read; ``signing_keys`` maps key ids to
    such paths, of which ``signing_key_id`` picks one. ``sandbox`` says that a service elsewhere
    than on loopback is no production. ``trust_env`` obeys proxy variables. Times are in seconds,
    ``rate_limit`` in requests a second (``None``: as fast as the service allows).
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
    store: Path = Path("data/store")
    sandbox: bool = False
    trust_env: bool = False
    ca_bundle: Path | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    call_timeout: float = 120.0
    rate_limit: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", checked_url("base_url", self.base_url))
        object.__setattr__(self, "auth_url", checked_url("auth_url", self.auth_url))
        for name in ("client_id", "signing_key_id"):
            value = getattr(self, name)
            if value is not None and not _VISIBLE.fullmatch(value):
                raise _invalid(name, value, "visible ASCII characters without spaces")
        if not self.client_secret.reveal():
            raise SettingsError("client_secret is empty")
        if not _HEADER_NAME.fullmatch(self.signature_header):
            raise _invalid("signature_header", self.signature_header, "an HTTP header name")
        if not _VISIBLE.fullmatch(self.signature_prefix or "/"):
            raise _invalid("signature_prefix", self.signature_prefix, "visible ASCII characters")
        if (self.signing_key is None) != (self.signing_key_id is None):
            raise SettingsError(
                "signing_key and signing_key_id go together: the path of the private key and the "
                "id under which its public key is registered on the credential"
            )
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not 0 < value <= _LARGEST_NUMBER:
                raise _invalid(name, value, f"a number above 0, at most {_LARGEST_NUMBER:,}")

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
        overrides = masked(overrides)
        found = _from_environment(os.environ if environ is None else environ)
        del environ  # from here on no local of ours holds a plain secret
        profile = profile or found.pop("profile", None)
        path = config_file or Path(user_config_dir("fundlab")) / CONFIG_NAME
        given = _from_file(path, profile) if profile else {}
        given |= found
        given |= {name: value for name, value in overrides.items() if value is not None}
        unknown = sorted(set(given) - _KNOWN)
        if unknown:
            raise SettingsError(
                f"unknown setting{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}; "
                f"known are {', '.join(sorted(_KNOWN))}"
            )
        _pick_signing_key(given)
        _find_secret(given, keyring_password or _keyring_password)
        _demand_required(given, path, profile)
        return cls(**{name: _converted(name, value) for name, value in given.items()})


_FIELDS: Final = {field.name for field in fields(Settings)}
_KNOWN: Final = _FIELDS | {"client_secret_file", "client_secret_keyring", "signing_keys"}
_SECRETS: Final = {"client_secret", "signing_key_password"}
_PATHS: Final = {"signing_key", "store", "ca_bundle"}
_FLAGS: Final = {"sandbox", "trust_env"}
_FLAG_WORDS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def checked_url(name: str, url: object) -> str:
    """``url`` without a trailing slash, if it is ``https://`` (or ``http://`` on loopback)."""
    accepted = "a URL such as https://api.example.com, without user, query or fragment"
    if not isinstance(url, str):
        raise _invalid(name, url, accepted)
    trimmed = url.rstrip("/")
    try:
        parts = urlsplit(trimmed)
        port = parts.port
    except ValueError:
        raise _invalid(name, url, accepted) from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError(f"{name} holds a user or password; give {accepted}")
    plain = (
        parts.scheme in ("https", "http")
        and parts.hostname
        and _PLAIN_HOST.fullmatch(parts.hostname)
        and _PLAIN_PATH.fullmatch(parts.path)
        and not any(part in (".", "..") for part in parts.path.split("/"))
        and "?" not in url
        and "#" not in url
        and trimmed == trimmed.strip()
        and port != 0
    )
    if not plain:
        raise _invalid(name, url, accepted)
    if parts.scheme == "http" and not _loopback(parts):
        raise SettingsError(
            f"{name}={url!r} would send secrets in the clear: http:// is for loopback only, "
            "use https://"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def is_loopback(url: str) -> bool:
    """Whether ``url`` points at this machine: ``localhost``, ``127.0.0.0/8`` or ``[::1]``."""
    return _loopback(urlsplit(url))


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
        raise SettingsError(f"{what} {path} cannot be read: {error.strerror}") from None


def _loopback(parts: SplitResult) -> bool:
    if parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _from_file(path: Path, profile: str) -> dict[str, Any]:
    tables = _tables(read_private(path, "the settings file"))
    if tables is None:
        raise SettingsError(f"{path} is not TOML in UTF-8")
    if profile not in tables:
        names = ", ".join(f"[{name}]" for name in tables) or "none"
        raise SettingsError(f"{path} has no table [{profile}]; it has {names}")
    return tables[profile]


def _tables(raw: bytes) -> dict[str, dict[str, Any]] | None:
    try:
        content = tomllib.loads(raw.decode("utf-8"))
    except ValueError:  # its message and context could quote a secret
        return None
    return {name: masked(table) for name, table in content.items() if isinstance(table, dict)}


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {f"{ENVIRONMENT_PREFIX}{name.upper()}": name for name in _KNOWN - {"signing_keys"}}
    names["FUNDLAB_PROFILE"] = "profile"
    return masked({names[key]: value for key, value in environ.items() if key in names and value})


def masked(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with every secret among them wrapped."""
    return {
        name: Secret(value) if name in _SECRETS and isinstance(value, str) else value
        for name, value in values.items()
    }


def _pick_signing_key(given: dict[str, Any]) -> None:
    keys = given.pop("signing_keys", None)
    if keys is None or "signing_key" in given:
        return
    if not isinstance(keys, Mapping):
        raise SettingsError("signing_keys maps key ids to paths of PEM private keys")
    chosen = given.get("signing_key_id")
    if chosen not in keys:
        raise SettingsError(
            f"signing_key_id={chosen!r} is none of signing_keys: {', '.join(map(str, keys))}"
        )
    given["signing_key"] = keys[chosen]


def _find_secret(given: dict[str, Any], keyring: Callable[[str, str], str | None]) -> None:
    file = given.pop("client_secret_file", None)
    entry = given.pop("client_secret_keyring", None)
    if "client_secret" in given:
        return
    if file is not None:
        raw = read_private(Path(str(file)).expanduser(), "client_secret_file")
        given["client_secret"] = Secret(raw.decode("utf-8", "replace").strip())
    elif entry is not None:
        found = keyring(str(entry), str(given.get("client_id", "")))
        if found is None:
            raise SettingsError(
                f"the keyring has no password for service {entry!r} and user "
                f"{given.get('client_id')!r}"
            )
        given["client_secret"] = Secret(found)


def _keyring_password(service: str, user: str) -> str | None:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise SettingsError(
            "client_secret_keyring needs the package keyring: pip install keyring"
        ) from None
    password: str | None = keyring.get_password(service, user)
    return password


def _demand_required(given: Mapping[str, Any], path: Path, profile: str | None) -> None:
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        named = ", ".join(f"{name} ({ENVIRONMENT_PREFIX}{name.upper()})" for name in missing)
        where = f"[{profile}] of {path}" if profile else f"a profile of {path}"
        raise SettingsError(
            f"missing: {named}; give them as keywords of connect(), in the environment variables "
            f"named, or in {where}"
        )


def _converted(name: str, value: Any) -> Any:
    if name in _SECRETS:
        if isinstance(value, Secret):
            return value
        raise SettingsError(f"{name} is a {type(value).__name__}; give text")
    if name in _PATHS:
        if isinstance(value, str | os.PathLike):
            return Path(value).expanduser()
        raise _invalid(name, value, "a path")
    if name in _FLAGS:
        flag = _FLAG_WORDS.get(str(value).lower())
        if flag is None:
            raise _invalid(name, value, "true or false")
        return flag
    if name in _NUMBERS:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise _invalid(name, value, "a number") from None
    if not isinstance(value, str):
        raise _invalid(name, value, "text")
    return value


def _invalid(name: str, value: object, accepted: str) -> SettingsError:
    return SettingsError(f"{name}={shorten(value)} is not accepted; give {accepted}")
