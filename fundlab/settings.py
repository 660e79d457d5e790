"""Where the service is, who asks, and how it signs: from keywords, the environment and a file.

A keyword beats ``FUNDLAB_…`` in the environment, which beats the profile's table in ``config.toml``
of the user's configuration folder. Secrets are wrapped: no repr, ``vars``, pickle or copy has them.
Until it is checked, every value is, and no message quotes one: it may be a secret in a wrong place.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import SplitResult, urlsplit

from platformdirs import user_config_dir

from fundlab.errors import SettingsError
from fundlab.secret import Masked, Secret, password_of_keyring, read_private, read_secret

ENVIRONMENT_PREFIX: Final = "FUNDLAB_"
CONFIG_NAME: Final = "config.toml"
DEFAULT_STORE: Final = Path("data/store")
_REQUIRED: Final = ("base_url", "auth_url", "client_id", "client_secret")
_NUMBERS: Final = ("connect_timeout", "read_timeout", "call_timeout", "rate_limit")
_LARGEST_NUMBER: Final = 1_000_000
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS: Final = {
    "accept", "accept-encoding", "authorization", "connection", "content-encoding",
    "content-length", "content-type", "cookie", "date", "expect", "host", "keep-alive",
    "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
    "x-request-id",
}  # fmt: skip
_LONGEST_NAME: Final = 255
_LIMIT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,18})?", re.ASCII)
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything ``connect()`` needs, checked. Raises ``SettingsError`` on anything unsafe.

    ``base_url`` and ``auth_url`` are ``https://`` (``http://`` for loopback only). ``signing_key``
    is the path of a PEM private key that only its owner can read; ``signing_keys`` maps key ids to
    such paths, of which ``signing_key_id`` picks one. ``sandbox`` says that a service elsewhere
    than on loopback is no production. ``trust_env`` obeys proxy variables. Times are in seconds,
    ``rate_limit`` in requests a second (``None``: as fast as the service allows).
    ``withdrawal_limit`` (of one withdrawal) and ``daily_withdrawal_limit`` (of a UTC day, in one
    store) are amounts without fees; ``allowed_accounts`` are the fiat accounts that may be paid:
    a list, or text with commas. ``None`` sets no limit.

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
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name in _REQUIRED:
                object.__setattr__(self, field.name, _accepted(_converted, field.name, value))

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
        del environ  # from here on no local of ours holds a plain secret
        profile = profile or _profile(found)
        path = config_file or Path(user_config_dir("fundlab")) / CONFIG_NAME
        given = _from_file(path, profile) if profile else {}
        given = _overlaid(_overlaid(given, found), overrides)
        unknown = sorted(set(given) - _KNOWN)
        if unknown:
            raise SettingsError(
                f"unknown setting{'s' if len(unknown) > 1 else ''} "
                f"{', '.join(_with_likely(name, _KNOWN) for name in unknown)}; "
                f"known are {', '.join(sorted(_KNOWN))}"
            )
        _pick_signing_key(given)
        _find_secret(given, keyring_password or password_of_keyring)
        _demand_required(given, path, profile, strays)
        return cls(**given)


def store_folder(
    environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> Path | str:
    """The store that ``connect()`` would name, a folder or an address, whatever else is missing."""
    found = _from_environment(os.environ if environ is None else environ)
    del environ
    profile = _profile(found)
    path = config_file or Path(user_config_dir("fundlab")) / CONFIG_NAME
    given = _overlaid(_from_file(path, profile) if profile else {}, found)
    folder: Path | str = _accepted(_converted, "store", given.get("store", DEFAULT_STORE))
    return folder


_FIELDS: Final = {field.name for field in fields(Settings)}
_KNOWN: Final = _FIELDS | {"client_secret_file", "client_secret_keyring", "signing_keys"}
_SECRETS: Final = {"client_secret", "signing_key_password"}
_FILES: Final = {
    "client_secret_file": "a file that holds the secret",
    "signing_key": "a PEM private key, which 'fundlab keys new' makes",
    "ca_bundle": "a file of certificates in PEM",
}
_ALTERNATIVES: Final = (
    {"client_secret", "client_secret_file", "client_secret_keyring"},
    {"signing_key", "signing_keys"},
)
_FLAGS: Final = {"sandbox", "trust_env"}
_LIMITS: Final = {"withdrawal_limit", "daily_withdrawal_limit"}
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
    if "@" in parts.netloc:
        raise SettingsError(f"{name} holds a user or password; give {accepted}")
    plain = (
        parts.scheme in ("https", "http")
        and _is_host(parts.hostname or "")
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
            f"{name} would send secrets in the clear: http:// is for loopback only, use https://"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def _is_host(name: str) -> bool:
    return bool(_HOST_NAME.fullmatch(name)) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "%" not in name


def is_loopback(url: str) -> bool:
    """Whether ``url`` points at this machine: ``localhost``, ``127.0.0.0/8`` or ``[::1]``."""
    return _loopback(urlsplit(url))


def _loopback(parts: SplitResult) -> bool:
    if parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _from_file(path: Path, profile: str) -> dict[str, Any]:
    if not path.exists():
        raise SettingsError(
            f"profile {profile!r} is looked for in {path}, which does not exist; write a table "
            f"[{profile}] there (mode 600), or leave the profile out"
        )
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
    """Both, ``above`` first: also where it gives the same thing under another name."""
    hidden = {name for group in _ALTERNATIVES if group & above.keys() for name in group}
    return {name: value for name, value in below.items() if name not in hidden} | dict(above)


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
        raise _invalid(name, keys, "a table of key ids and paths of PEM private keys")
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
    return read_secret(_file(name, file), name)


def _demand_required(
    given: Mapping[str, Any], path: Path, profile: str | None, strays: list[str]
) -> None:
    missing = [name for name in _REQUIRED if name not in given]
    if not missing:
        return
    named = ", ".join(f"{name} ({_variable(name)})" for name in missing)
    where = f"[{profile}] of {path}" if profile else f"a profile of {path}"
    stray = "".join(
        f"; {_with_likely(name, _variables())} is set, but is no setting" for name in strays
    )
    raise SettingsError(
        f"missing: {named}; give them as keywords of connect(), in the environment variables "
        f"named, or in {where}{stray}"
    )


def _with_likely(name: str, known: Iterable[str]) -> str:
    likely = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{name} (did you mean {likely[0]}?)" if likely else name


def _converted(name: str, value: Any) -> Any:
    if name in _SECRETS:
        return _secret(name, value)
    if name in ("base_url", "auth_url"):
        return checked_url(name, value)
    if name == "store" and "://" in str(value):
        return str(value)  # an address of fsspec's or Arrow's, which a Path would mangle
    if name in _FILES:
        return _file(name, value)
    if name == "store":
        return _path(name, value)
    if name in _FLAGS:
        flag = _FLAG_WORDS.get(str(value).lower())
        if flag is None:
            raise _invalid(name, value, "true or false")
        return flag
    if name in _NUMBERS:
        return _number(name, value)
    if name in _LIMITS:
        if isinstance(value, str | int | Decimal) and _LIMIT.fullmatch(str(value)):
            return Decimal(value)
        raise _invalid(name, value, "an amount as text, such as '10000.00'")
    if name == "allowed_accounts":
        ids = value.split(",") if isinstance(value, str) else value
        if isinstance(ids, list | tuple) and all(isinstance(entry, str) for entry in ids):
            return tuple(entry.strip() for entry in ids)
        raise _invalid(name, value, "a list of fiat account ids")
    return _text(name, value)


def _secret(name: str, value: object) -> Secret:
    if isinstance(value, str):
        value = Secret(value)
    if not isinstance(value, Secret):
        raise SettingsError(f"{name} is a {type(value).__name__}; give text")
    if name == "client_secret" and not value.reveal():
        raise SettingsError("client_secret is empty; give the secret of client_id")
    if name == "client_secret" and value.reveal().strip() != value.reveal():
        raise SettingsError("client_secret starts or ends with white space; copy it once more")
    return value


def _path(name: str, value: object) -> Path:
    accepted = "the path of a file" if name != "store" else "the path of a folder"
    if not isinstance(value, str | os.PathLike):
        raise _invalid(name, value, accepted)
    path = Path(value)
    if "-----" in str(path) or any(len(part) > _LONGEST_NAME for part in str(path).split("/")):
        raise _invalid(name, value, f"{accepted}, not what it holds")
    if not str(path).isprintable():
        raise _invalid(name, value, accepted)
    try:
        return path.expanduser()
    except RuntimeError:  # the home of a user that does not exist
        raise _invalid(name, value, accepted) from None


def _file(name: str, value: object) -> Path:
    """The path of what is there; of what is not the name is kept back: it may be a secret."""
    path = _path(name, value)
    try:
        path.stat()
    except OSError as error:
        reason = (error.strerror or "it cannot be reached").lower()
    else:
        return path
    raise SettingsError(f"{name} names no file ({reason}); give the path of {_FILES[name]}")


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _invalid(name, value, "a number") from None
    if not 0 < number <= _LARGEST_NUMBER:
        raise _invalid(name, number, f"a number above 0, at most {_LARGEST_NUMBER:,}")
    return number


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _invalid(name, value, "text")
    if name == "signature_header":
        if not _HEADER_NAME.fullmatch(value):
            raise _invalid(name, value, "an HTTP header name")
        if value.lower() in _OWN_HEADERS:
            raise _invalid(name, value, "a header that has no other use, as Service-Signature")
    elif not _VISIBLE.fullmatch(value) and (value or name != "signature_prefix"):
        raise _invalid(name, value, "visible ASCII characters without spaces")
    return value


def _invalid(name: str, value: object, accepted: str) -> SettingsError:
    """The error for ``value``, shown only where a number is asked for: it may be a secret."""
    if name in _NUMBERS and isinstance(value, float):
        return SettingsError(f"{name}={value!r} is not accepted; give {accepted}")
    kind = "text" if isinstance(value, str) else type(value).__name__
    return SettingsError(f"the {kind} given as {name} is not accepted; give {accepted}")
