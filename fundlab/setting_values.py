"""What each setting may be: text from anywhere becomes a value of its type, or is refused.

No message quotes what was given, but for numbers: it may be a secret in a wrong place.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from fundlab.errors import SettingsError
from fundlab.secret import Secret

REQUIRED: Final = ("base_url", "auth_url", "client_id", "client_secret")
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
_SECRETS: Final = {"client_secret", "signing_key_password"}
_FILES: Final = {
    "client_secret_file": "a file that holds the secret",
    "signing_key": "a PEM private key, which 'fundlab keys new' makes",
    "ca_bundle": "a file of certificates in PEM",
}
_FOLDERS: Final = {"store", "journal"}
_FLAGS: Final = {"sandbox", "trust_env"}
_LIMITS: Final = {"withdrawal_limit", "daily_withdrawal_limit"}
_FLAG_WORDS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def converted(name: str, value: Any) -> Any:
    """``value`` as the setting ``name`` holds it. Raises ``SettingsError`` saying what it takes."""
    if name in _SECRETS:
        return _secret(name, value)
    if name in ("base_url", "auth_url"):
        return checked_url(name, value)
    if name == "store" and "://" in str(value):
        return str(value)  # an address of fsspec's or Arrow's, which a Path would mangle
    if name == "ca_bundle":
        return _bundle(name, existing_file(name, value))
    if name in _FILES:
        return existing_file(name, value)
    if name in _FOLDERS:
        return _placed(_path(name, value))
    if name in _FLAGS:
        flag = _FLAG_WORDS.get(str(value).lower())
        if flag is None:
            raise invalid(name, value, "true or false")
        return flag
    if name in _NUMBERS:
        return _number(name, value)
    if name in _LIMITS:
        if isinstance(value, str | int | Decimal) and _LIMIT.fullmatch(str(value)):
            return Decimal(value)
        raise invalid(name, value, "an amount as text, such as '10000.00'")
    if name == "allowed_accounts":
        ids = value.split(",") if isinstance(value, str) else value
        if isinstance(ids, list | tuple) and all(isinstance(entry, str) for entry in ids):
            return tuple(entry.strip() for entry in ids)
        raise invalid(name, value, "a list of fiat account ids")
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
    accepted = "the path of a folder" if name in _FOLDERS else "the path of a file"
    if not isinstance(value, str | os.PathLike):
        raise invalid(name, value, accepted)
    path = Path(value)
    if "-----" in str(path) or any(len(part) > _LONGEST_NAME for part in str(path).split("/")):
        raise invalid(name, value, f"{accepted}, not what it holds")
    if not str(path).isprintable():
        raise invalid(name, value, accepted)
    try:
        return path.expanduser()
    except RuntimeError:  # the home of a user that does not exist
        raise invalid(name, value, accepted) from None


def _placed(path: Path) -> Path:
    """Where ``path`` is now: it stays there when the program moves to another folder."""
    try:
        return path.absolute()
    except FileNotFoundError:  # the folder we are in was removed
        return path


def existing_file(name: str, value: object) -> Path:
    """The path of what is there; of what is not the name is kept back: it may be a secret."""
    path = _path(name, value)
    try:
        path.stat()
    except OSError as error:
        reason = (error.strerror or "it cannot be reached").lower()
    else:
        return path
    accepted = _FILES.get(name, _FILES["ca_bundle"])
    raise SettingsError(f"{name} names no file ({reason}); give the path of {accepted}")


def bundle_of_environment() -> Path | None:
    """The certificates that ``REQUESTS_CA_BUNDLE`` or ``SSL_CERT_FILE`` names, as ``requests`` and
    OpenSSL do."""
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        if os.environ.get(name):
            return _bundle(name, existing_file(name, os.environ[name]))
    return None


def _bundle(name: str, path: Path) -> Path:
    """``path``, if it holds certificates; a folder of them is taken as it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if path.is_dir():
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except OSError as error:  # OpenSSL's errors are
        unread = not isinstance(error, ssl.SSLError)
    else:
        return path
    problem = "cannot be read" if unread else "holds no certificates in PEM"
    raise SettingsError(f"the file of {name} {problem}; give {_FILES['ca_bundle']}")


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid(name, value, "a number") from None
    if not 0 < number <= _LARGEST_NUMBER:
        raise invalid(name, number, f"a number above 0, at most {_LARGEST_NUMBER:,}")
    return number


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise invalid(name, value, "text")
    if name == "signature_header":
        if not _HEADER_NAME.fullmatch(value):
            raise invalid(name, value, "an HTTP header name")
        if value.lower() in _OWN_HEADERS:
            raise invalid(name, value, "a header that has no other use, as Service-Signature")
    elif not _VISIBLE.fullmatch(value) and (value or name != "signature_prefix"):
        raise invalid(name, value, "visible ASCII characters without spaces")
    return value


def invalid(name: str, value: object, accepted: str) -> SettingsError:
    """The error for ``value``, shown only where a number is asked for: it may be a secret."""
    if name in _NUMBERS and isinstance(value, float):
        return SettingsError(f"{name}={value!r} is not accepted; give {accepted}")
    kind = "text" if isinstance(value, str) else type(value).__name__
    return SettingsError(f"the {kind} given as {name} is not accepted; give {accepted}")


def checked_url(name: str, url: object) -> str:
    """``url`` without a trailing slash, if it is ``https://`` (or ``http://`` on loopback)."""
    accepted = "a URL such as https://api.example.com, without user, query or fragment"
    if not isinstance(url, str):
        raise invalid(name, url, accepted)
    trimmed = url.rstrip("/")
    try:
        parts = urlsplit(trimmed)
        port = parts.port
    except ValueError:
        raise invalid(name, url, accepted) from None
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
        raise invalid(name, url, accepted)
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
        address = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
