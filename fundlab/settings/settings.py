"""Where the service is, who asks, and how it signs: from keywords, the environment and a file.

A keyword beats ``FUNDLAB_…`` in the environment, which beats the profile's table in ``config.toml``
of the user's configuration folder. Secrets are wrapped: no repr, ``vars``, pickle or copy has them.
Until it is checked, every value is, and no message quotes one, but for numbers: it may be a secret
in a wrong place. (pydantic-settings quotes them, and to import it takes an eighth of what importing
the client does: 540 ms of processor time for 479.)
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self, SupportsFloat, TypedDict
from urllib.parse import urlsplit

from platformdirs import user_data_dir

from fundlab.base.errors import SettingsError, a_type, with_likely
from fundlab.base.exact import AMOUNT
from fundlab.settings.config_file import CHOSEN, config_path, is_there, profile_names, read_config
from fundlab.settings.labels import names_given
from fundlab.settings.secret import Masked, Secret, password_of_keyring, read_secret

log = logging.getLogger(__name__)

ENVIRONMENT_PREFIX: Final = "FUNDLAB_"
SANDBOX_PREFIX: Final = "FUNDLAB_SANDBOX_"
"""Of what a sandbox reads, or tells the command that it runs beside the settings."""
DEFAULT_STORE: Final = Path("data/store")
WATCHED: Final = ("sync", "report", "close", "status")
"""The commands that can tell somebody how they end."""
OTHER_VARIABLES: Final = (
    "FUNDLAB_APPROVAL_KEY", "FUNDLAB_LOG", "FUNDLAB_NOTIFY",
    *(f"FUNDLAB_HEARTBEAT_{name.upper()}" for name in WATCHED),
)  # fmt: skip
SECRETS: Final = tuple(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in ("CLIENT_SECRET", "SIGNING_KEY_PASSWORD", "MAIL_PASSWORD")
)
REQUIRED: Final = ("base_url", "auth_url", "client_id", "client_secret")


def _default_journal() -> Path:
    return Path("/", user_data_dir("fundlab"), "journal")  # absolute where there is no home too


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """Everything ``connect()`` needs, checked. Raises ``SettingsError`` on anything unsafe.

    ``base_url`` and ``auth_url`` are ``https://`` (``http://`` for loopback only). ``signing_key``
    is the path of a PEM private key that only its owner can read; ``signing_keys`` maps key ids to
    such paths, of which ``signing_key_id`` picks one. ``sandbox`` says that a service elsewhere
    than on loopback is not production: the one whose ``base_url`` stands beside it, in the same
    profile, say. ``lenient_requests`` sends bank details and memos that the live reference refuses
    (without a country, an owner's or a bank's address, with other letters), to a deployment that
    takes them. ``trust_env`` obeys proxy variables, but for loopback, and ``REQUESTS_CA_BUNDLE``
    or ``SSL_CERT_FILE`` where there is no ``ca_bundle``. Times are in seconds,
    ``rate_limit`` in requests a second (``None``: as fast as the service allows).
    ``journal`` is the folder of the journals of payments, one for each service and credential; by
    default it is in the user's data folder, so that all stores share it. ``withdrawal_limit`` (of
    one withdrawal) and ``daily_withdrawal_limit`` (of a UTC day, what was seen to fail aside: what
    the journal holds and, where money is real, every other withdrawal that the service shows) are
    amounts without fees (of one by ``total`` that total, until its fee is known);
    ``allowed_accounts`` are the fiat accounts that may be paid: a list, or text with commas;
    ``balance_floor`` is what a withdrawal leaves available at least, by asset: a table, or text
    such as ``USD=1000.00``; a fee that is not known counts as high as any of late. ``None`` sets
    no limit. ``only_own_payments`` says that nobody else
    pays from this service's profiles: a debit that no journal of this user knows is then a
    difference, not a piece of information.
    ``approvals`` is how many other people must have signed a withdrawal (0: none, at most 9):
    every one, or where any is set those of ``approval_from`` or more, those that bring the sum of
    a UTC day, counted as for its limit, to ``approval_daily_from``, and with
    ``approval_new_account`` the first to an account.
    ``mail_server``
    (``smtps://mail.example.com``, or ``smtp://…`` with STARTTLS) takes what ``--notify mailto:…``
    sends, from ``mail_from``, logged in as ``mail_user`` with ``mail_password``.

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
    lenient_requests: bool = False
    trust_env: bool = False
    ca_bundle: Path | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    call_timeout: float = 120.0
    rate_limit: float | None = None
    withdrawal_limit: Decimal | None = None
    daily_withdrawal_limit: Decimal | None = None
    allowed_accounts: tuple[str, ...] | None = None
    balance_floor: Mapping[str, Decimal] | None = None
    only_own_payments: bool = False
    approvals: int = 0
    approval_from: Decimal | None = None
    approval_daily_from: Decimal | None = None
    approval_new_account: bool = False
    mail_server: str | None = None
    mail_from: str | None = None
    mail_user: str | None = None
    mail_password: Secret | None = None
    on_loopback: bool = field(init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        made = vars(self)  # a traceback may show one that is only half made, and not checked yet
        shown = (
            f"{name}={made[name] if isinstance(made[name], Secret) else '***'!r}"
            if name in ("client_secret", "signing_key_password", "mail_password") and made[name]
            else f"{name}={made[name]!r}"
            for name in _FIELDS
            if name in made
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __post_init__(self) -> None:
        if (self.signing_key is None) != (self.signing_key_id is None):
            raise SettingsError(
                "signing_key and signing_key_id go together: the path of the private key and the "
                "id under which its public key is registered on the credential"
            )
        for name in _FIELDS:
            value = getattr(self, name)
            if value is not None or name in REQUIRED:
                object.__setattr__(self, name, checked(name, value))
        for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):  # as requests and OpenSSL do
            if self.trust_env and self.ca_bundle is None and os.environ.get(name):
                object.__setattr__(self, "ca_bundle", checked(name, os.environ[name]))
        object.__setattr__(self, "on_loopback", is_loopback(urlsplit(self.base_url).hostname))

    @property
    def is_production(self) -> bool:
        """Whether money is real: neither loopback nor marked ``sandbox``."""
        return not (self.sandbox or self.on_loopback)

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

        ``profile`` (or ``FUNDLAB_PROFILE``) names a table of ``config.toml``; where nothing else
        says which service, ``profile = "…"`` at the top of that file does. The secret may also
        come from ``client_secret_file`` (a file only its owner can read) or from the system keyring
        (``client_secret_keyring`` names the entry, under the client id as user). ``environ``,
        ``config_file`` and ``keyring_password`` replace the process's own.

        Raises ``SettingsError`` naming what is missing, unknown, malformed or unsafe.
        """
        overrides = masked({name: v for name, v in overrides.items() if v is not None})
        variables, unknown_variables = _from_environment(environ)
        environ = None  # from here on no local of ours holds a plain secret
        if "base_url" not in variables and variables.pop("sandbox", None) is not None:
            log.warning("FUNDLAB_SANDBOX has no effect: no base_url stands beside it")
        below, profile = _with_profile(variables, profile, config_file, overrides)
        given = _overlaid(below, overrides)
        if unknown := sorted(set(given) - _KNOWN):
            raise SettingsError(
                f"unknown setting{'s' if len(unknown) > 1 else ''} "
                f"{', '.join(with_likely(name, _KNOWN) for name in unknown)}; "
                f"known are {', '.join(sorted(_KNOWN))}"
            )

        # Of several signing keys the one that signing_key_id names.
        keys, key_id = given.pop("signing_keys", None), given.get("signing_key_id", Masked(None))
        if keys is not None and "signing_key" not in given:
            if not isinstance(keys.reveal(), Mapping):
                accepted = "a table of key ids and paths of PEM private keys"
                raise invalid("signing_keys", keys.reveal(), accepted)
            if not isinstance(key_id.reveal(), str) or key_id.reveal() not in keys.reveal():
                ids = ", ".join(map(str, keys.reveal()))
                raise SettingsError(f"signing_key_id is none of signing_keys: give one of {ids}")
            given["signing_key"] = Masked(keys.reveal()[key_id.reveal()])

        # The secret, where it is named instead of given.
        file, entry = (given.pop(f"client_secret_{kind}", None) for kind in ("file", "keyring"))
        if "client_secret" not in given and file is not None:
            path = checked("client_secret_file", file)
            given["client_secret"] = read_secret(path, "client_secret_file")
        elif "client_secret" not in given and entry is not None:
            service, user = str(entry.reveal()), str(given.get("client_id", Masked("")).reveal())
            password = Masked((keyring_password or password_of_keyring)(service, user))
            if password.reveal() is None:
                raise SettingsError(
                    f"the keyring has no password for service {service!r} and user {user!r}; "
                    f"store it with: keyring set {service} {user}"
                )
            given["client_secret"] = Secret(password.reveal())

        if missing := [name for name in REQUIRED if name not in given]:
            named = ", ".join(f"{n} ({ENVIRONMENT_PREFIX}{n.upper()})" for n in missing)
            path = config_file or config_path()
            place = f"[{profile}] of {path}"
            if profile is None:
                there = profile_names(read_config(path)) if is_there(path) else []
                place = f"a profile of {path}, which 'fundlab init' writes"
                if there:
                    names = ", ".join(f"[{name}]" for name in there)
                    if CHOSEN in read_config(path):
                        names += f", and its line {CHOSEN} does not count beside a service given so"
                    place = (
                        f"a profile: {path} has {names}; choose one with --profile NAME, "
                        "FUNDLAB_PROFILE or connect(NAME)"
                    )
            raise SettingsError(
                f"missing: {named}; give them as keywords of connect(), in the environment "
                f"variables named, or in {'; '.join([place, *unknown_variables])}"
            )
        for problem in unknown_variables:
            log.warning("%s: it has no effect", problem)
        return cls(**given)


def store_folder(
    environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> Path | str:
    """The store that ``connect()`` would name, a folder or an address, whatever else is missing."""
    folder: Path | str = setting("store", environ, config_file) or checked("store", DEFAULT_STORE)
    return folder


def profile_in_use(
    environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> str | None:
    """The profile that ``connect()`` would take: the one that is named, or the file's choice."""
    return _with_profile(_from_environment(environ)[0], None, config_file)[1]


def journal_folder(
    environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> Path:
    """The folder of journals that ``connect()`` would name, whatever else is missing."""
    folder: Path = setting("journal", environ, config_file) or _default_journal()
    return folder


def setting(
    name: str, environ: Mapping[str, str] | None = None, config_file: Path | None = None
) -> Any:
    """The setting ``name`` that ``connect()`` would have, whatever else is missing, or ``None``."""
    variables, unknown_variables = _from_environment(environ)
    environ = None
    for problem in unknown_variables:
        log.warning("%s: it has no effect", problem)
    given, _ = _with_profile(variables, None, config_file)
    return checked(name, given[name]) if name in given else None


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
    lenient_requests: bool | None
    trust_env: bool | None
    ca_bundle: str | PathLike[str] | None
    connect_timeout: SupportsFloat | None
    read_timeout: SupportsFloat | None
    call_timeout: SupportsFloat | None
    rate_limit: SupportsFloat | None
    withdrawal_limit: str | int | Decimal | None
    daily_withdrawal_limit: str | int | Decimal | None
    allowed_accounts: str | Sequence[str] | None
    balance_floor: str | Mapping[str, str | int | Decimal] | None
    only_own_payments: bool | None
    approvals: int | str | None
    approval_from: str | int | Decimal | None
    approval_daily_from: str | int | Decimal | None
    approval_new_account: bool | None
    mail_server: str | None
    mail_from: str | None
    mail_user: str | None
    mail_password: str | Secret | None


_FIELDS: Final = tuple(one.name for one in fields(Settings) if one.init)
_KNOWN: Final = {*_FIELDS} | {"client_secret_file", "client_secret_keyring", "signing_keys"}
_VARIABLES: Final = {
    f"{ENVIRONMENT_PREFIX}{name.upper()}": name
    for name in (_KNOWN - {"signing_keys"}) | {"profile"}
}
_ALTERNATIVES: Final = (
    {"client_secret", "client_secret_file", "client_secret_keyring"},
    {"signing_key", "signing_keys"},
)

# ------------------------------------------------------------------------ from where they come


def _from_environment(environ: Mapping[str, str] | None) -> tuple[dict[str, Any], list[str]]:
    """The settings in ``environ``, and what to say of variables of our prefix that are none."""
    environ = os.environ if environ is None else environ
    variables = {
        _VARIABLES[key]: text for key, text in environ.items() if key in _VARIABLES and text
    }
    unknown = [
        f"{with_likely(key, _VARIABLES)} is set, but is not a setting"
        for key in sorted(environ)
        if key.startswith(ENVIRONMENT_PREFIX)
        and key not in (*_VARIABLES, *OTHER_VARIABLES)
        and not key.startswith(SANDBOX_PREFIX)
    ]
    return masked(variables), unknown


def _with_profile(
    variables: dict[str, Any],
    profile: str | None,
    config_file: Path | None,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], str | None]:
    """``found`` over the table of the profile, which it may name; and that profile's name.

    Where neither it nor ``overrides`` say anything of the service, it is the profile that the file
    itself names.
    """
    named = variables.pop("profile", None)
    profile = profile or (None if named is None else str(named.reveal()))
    path = config_file or config_path()
    if profile is None:
        # A secret by itself does not say which service.
        if {*variables, *(overrides or ())} & {*REQUIRED} - {"client_secret"} or not is_there(path):
            return variables, None
        default = read_config(path).get(CHOSEN, Masked(None)).reveal()
        if not isinstance(default, str):
            return variables, None
        profile = default
    if not is_there(path):
        raise SettingsError(
            f"profile {profile!r} is looked for in {path}, which does not exist; write a table "
            f"[{profile}] there (mode 600; 'fundlab init' does), or leave the profile out"
        )
    config = read_config(path)
    if profile not in profile_names(config):
        names = ", ".join(f"[{name}]" for name in profile_names(config)) or "none"
        advice = ""
        if profile in names_given().values():
            advice = f". {profile} is a name of an id: give a funding profile with --of"
        raise SettingsError(f"{path} has no table [{profile}]; it has {names}{advice}")
    return _overlaid(masked(config[profile].reveal()), variables), profile


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, ``above`` first: also where it gives the same thing under another name.

    That ``below`` is a sandbox is said of its own service, not of another that ``above`` names.
    """
    hidden = {name for group in _ALTERNATIVES if group & above.keys() for name in group}
    was, now = (
        str(layer["base_url"].reveal()).rstrip("/").lower() if "base_url" in layer else None
        for layer in (below, above)
    )
    if now is not None and now != was:
        hidden.add("sandbox")
    return {name: value for name, value in below.items() if name not in hidden} | dict(above)


def masked(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values``, each of them wrapped: what they are is known only when they are checked."""
    return {n: value if isinstance(value, Masked) else Masked(value) for n, value in values.items()}


# ------------------------------------------------------------------------ what they may be


def checked(name: str, value: Any) -> Any:
    """``value`` as the setting ``name`` holds it. Raises ``SettingsError`` saying what it takes.

    The frames of its check, which hold the value, are in no traceback.
    """
    value = value if isinstance(value, Masked) else Masked(value)
    try:
        check = _CHECKS.get(name, _text)
        return check(name, value if isinstance(value, Secret) else value.reveal())
    except SettingsError as error:
        problem = str(error)
    raise SettingsError(problem)


def invalid(name: str, value: object, accepted: str) -> SettingsError:
    """The error for ``value``, shown only where a number is asked for: it may be a secret."""
    if _CHECKS.get(name) is _number and isinstance(value, float):
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
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise invalid(name, url, accepted) from None
    try:
        ipaddress.ip_address(host)
        is_host = "%" not in host
    except ValueError:
        is_host = _HOST_NAME.fullmatch(host) is not None
    if "@" in parts.netloc:
        raise SettingsError(f"{name} holds a user or password; give {accepted}")
    plain = (
        parts.scheme in ("https", "http")
        and is_host
        and _PLAIN_PATH.fullmatch(parts.path)
        and not any(part in (".", "..") for part in parts.path.split("/"))
        and "?" not in url
        and "#" not in url
        and trimmed == trimmed.strip()
        and port != 0
    )
    if not plain:
        raise invalid(name, url, accepted)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise SettingsError(
            f"{name} would send secrets in the clear: http:// is for loopback only, use https://"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def is_loopback(host: str | None) -> bool:
    """Whether ``host`` is this machine: ``localhost``, ``127.0.0.0/8`` or ``::1``."""
    host = host or ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _secret(name: str, value: object) -> Secret:
    if isinstance(value, str):
        value = Secret(value)
    if not isinstance(value, Secret):
        raise SettingsError(f"{name} is {a_type(value)}; give text")
    if name == "client_secret" and not value.reveal():
        raise SettingsError("client_secret is empty; give the secret of client_id")
    if name == "client_secret" and value.reveal().strip() != value.reveal():
        raise SettingsError("client_secret starts or ends with white space; copy it once more")
    if name == "client_secret" and any("\ud800" <= char <= "\udfff" for char in value.reveal()):
        raise SettingsError("client_secret is not valid Unicode; copy it once more")
    return value


def _path(name: str, value: object, accepted: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise invalid(name, value, accepted)
    path = Path(value)
    if "-----" in str(path) or any(len(part) > _LONGEST_NAME for part in str(path).split("/")):
        raise invalid(name, value, f"{accepted}, not what it holds")
    try:
        if str(path).isprintable():
            return path.expanduser()
    except RuntimeError:  # the home of a user that does not exist
        pass
    raise invalid(name, value, accepted)


def _folder(name: str, value: object) -> Path | str:
    if name == "store" and "://" in str(value):
        return str(value)  # an address of fsspec's or Arrow's, which a Path would mangle
    path = _path(name, value, "the path of a folder")
    try:
        return path.absolute()  # it stays there when the program moves to another folder
    except FileNotFoundError:  # the folder we are in was removed
        return path


def _file(name: str, value: object) -> Path:
    """The path of what is there; of what is not the name is kept back: it may be a secret."""
    path = _path(name, value, "the path of a file")
    try:
        path.stat()
    except OSError as error:
        reason = (error.strerror or "it cannot be reached").lower()
    else:
        return path
    accepted = _FILES.get(name, _FILES["ca_bundle"])
    raise SettingsError(f"{name} names no file ({reason}); give the path of {accepted}")


def _bundle(name: str, value: object) -> Path:
    """The path, if it holds certificates; a folder of them is taken as it is."""
    import ssl

    path, context = _file(name, value), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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


def _flag(name: str, value: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    flag = words.get(str(value).lower())
    if flag is None:
        raise invalid(name, value, "true or false")
    return flag


def _server(name: str, value: object) -> str:
    accepted = "smtps://mail.example.com or smtp://…, without user or path"
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or "@" in parts.netloc:
        raise invalid(name, value, accepted)
    return str(value)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid(name, value, "a number") from None
    if not 0 < number <= _LARGEST_NUMBER:
        raise invalid(name, number, f"a number above 0, at most {_LARGEST_NUMBER:,}")
    return number


def _limit(name: str, value: object) -> Decimal:
    if isinstance(value, str | int | Decimal) and re.fullmatch(AMOUNT, str(value)):
        return Decimal(value)
    raise invalid(name, value, "an amount as text, such as '10000.00'")


def _people(name: str, value: object) -> int:
    if isinstance(value, str | int) and re.fullmatch("[0-9]", str(value)):
        return int(value)
    raise invalid(name, value, "how many other people must approve, 0 to 9")


def _floors(name: str, value: object) -> dict[str, Decimal]:
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, str):
        given = [part.partition("=") for part in value.split(",")]
        parts = [(asset.strip() if sign else "", amount) for asset, sign, amount in given]
    elif isinstance(value, Mapping):
        parts = [*value.items()]
    assets = [asset for asset, _ in parts if re.fullmatch("[A-Z0-9]+", str(asset))]
    if not parts or len({*assets}) < len(parts):
        raise invalid(name, value, "an amount by asset, such as 'USD=1000.00,EUR=500'")
    return {asset: _limit(name, amount) for asset, amount in parts}


def _account_ids(name: str, value: object) -> tuple[str, ...]:
    ids = value.split(",") if isinstance(value, str) else value
    if isinstance(ids, list | tuple) and all(isinstance(entry, str) for entry in ids):
        return tuple(entry.strip() for entry in ids)
    raise invalid(name, value, "a list of fiat account ids")


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


_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "base_url": checked_url,
    "auth_url": checked_url,
    "client_secret": _secret,
    "client_secret_file": _file,
    "signing_key": _file,
    "signing_key_password": _secret,
    "store": _folder,
    "journal": _folder,
    "sandbox": _flag,
    "lenient_requests": _flag,
    "trust_env": _flag,
    "ca_bundle": _bundle,
    "REQUESTS_CA_BUNDLE": _bundle,
    "SSL_CERT_FILE": _bundle,
    "connect_timeout": _number,
    "read_timeout": _number,
    "call_timeout": _number,
    "rate_limit": _number,
    "withdrawal_limit": _limit,
    "daily_withdrawal_limit": _limit,
    "allowed_accounts": _account_ids,
    "balance_floor": _floors,
    "only_own_payments": _flag,
    "approvals": _people,
    "approval_from": _limit,
    "approval_daily_from": _limit,
    "approval_new_account": _flag,
    "mail_server": _server,
    "mail_password": _secret,
}
"""What each setting may be; any other is ``_text``."""
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
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_FILES: Final = {
    "client_secret_file": "a file that holds the secret",
    "signing_key": "a PEM private key, which 'fundlab keys new' makes",
    "ca_bundle": "a file of certificates in PEM",
}
