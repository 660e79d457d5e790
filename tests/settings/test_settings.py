from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import keyring.backend
import keyring.backends.fail
import pytest

from fundlab.base.errors import SettingsError
from fundlab.settings.secret import Secret
from fundlab.settings.settings import Settings, checked_url, store_folder

CANARY = "canary-5f0c2d"
ENVIRON = {
    "FUNDLAB_BASE_URL": "https://api.example.com",
    "FUNDLAB_AUTH_URL": "https://auth.example.com/",
    "FUNDLAB_CLIENT_ID": "from-environment",
    "FUNDLAB_CLIENT_SECRET": CANARY,
}


def config(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_the_environment_is_read() -> None:
    settings = Settings.load(environ=ENVIRON | {"FUNDLAB_LOG": "DEBUG", "FUNDLAB_OTHER": "x"})
    assert settings.base_url == "https://api.example.com"
    assert settings.auth_url == "https://auth.example.com"
    assert settings.client_secret.reveal() == CANARY
    assert settings.store == Path.cwd() / "data" / "store"
    assert (settings.signature_header, settings.signature_prefix) == (
        "Service-Signature", "service/",
    )  # fmt: skip
    assert settings.is_production


def test_keywords_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    path = config(
        tmp_path,
        """
        [production]
        base_url = "https://file.example.com"
        auth_url = "https://file.example.com"
        client_id = "from-file"
        client_secret = "in-file"
        store = "~/store"
        sandbox = true
        rate_limit = 5
        """,
    )
    alone = Settings.load("production", environ={}, config_file=path)
    assert (alone.client_id, alone.client_secret.reveal()) == ("from-file", "in-file")
    assert alone.store == Path("~/store").expanduser()
    assert (alone.is_production, alone.rate_limit) == (False, 5.0)
    both = Settings.load(
        environ={"FUNDLAB_PROFILE": "production", "FUNDLAB_CLIENT_ID": "env"}, config_file=path
    )
    assert (both.client_id, both.base_url) == ("env", "https://file.example.com")
    all_three = Settings.load(
        "production", environ={"FUNDLAB_CLIENT_ID": "env"}, config_file=path, client_id="keyword"
    )
    assert all_three.client_id == "keyword"


def test_what_is_missing_is_named_with_its_variable() -> None:
    environ = {"FUNDLAB_BASE_URL": "https://a.example", "FUNDLAB_CLIENT_ID": ""}
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ=environ)
    message = str(caught.value)
    assert (
        "missing: auth_url (FUNDLAB_AUTH_URL), client_id (FUNDLAB_CLIENT_ID), client_s" in message
    )
    assert "base_url" not in message.partition(";")[0]
    assert "keywords of connect()" in message


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"base_urll .did you mean base_url\?.; known are al"):
        Settings.load(environ=ENVIRON, base_urll="x")
    path = config(tmp_path, f'[p]\nclient_sekret = "{CANARY}"\ntimeout = 1\n')
    with pytest.raises(
        SettingsError, match=r"unknown settings client_sekret .+, timeout"
    ) as caught:
        Settings.load("p", environ=ENVIRON, config_file=path)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o644])
def test_a_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = config(tmp_path, "[p]\n", mode)
    with pytest.raises(SettingsError, match=f"mode {mode:o}.*run: chmod 600"):
        Settings.load("p", environ=ENVIRON, config_file=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[p]\n", r"has no table \[q\]; it has \[p\]"),
        ("", r"has no table \[q\]; it has none"),
        (f"[q]\nclient_secret = '{CANARY}\n", "is not TOML in UTF-8"),
    ],
)
def test_a_file_without_the_profile_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        Settings.load("q", environ=ENVIRON, config_file=config(tmp_path, text))
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_profile_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml, which does not exist; write a table"):
        Settings.load("q", environ=ENVIRON, config_file=tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("https://api.example.com/", "https://api.example.com"),
        ("https://API.example.com:8443/a/b/", "https://api.example.com:8443/a/b"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("http://127.9.9.9", "http://127.9.9.9"),
        ("http://localhost:1", "http://localhost:1"),
        ("http://[::1]:5000", "http://[::1]:5000"),
        ("https://a.example.", "https://a.example."),
        ("https://2130706433", "https://2130706433"),
    ],
)
def test_urls_that_are_accepted(url: str, accepted: str) -> None:
    assert checked_url("base_url", url) == accepted


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com", "http://127.0.0.1.example.com", "http://localhost.example.com",
        "http://10.0.0.1", "http://0.0.0.0", "http://[::2]", "http://2130706433",
        "ftp://127.0.0.1", "api.example.com", "", "https://", "https:///x", "file:///etc/passwd",
        "https://user:pw@api.example.com", "https://user@api.example.com",
        "https://api.example.com?a=b", "https://api.example.com#x", "https://api.example.com/?",
        "https://api.example.com/a b", "https://api.example.com/%2f", "https://api.example.com/..",
        "https://api.example.com:99999", "https://api.example.com:0", "https://exa mple.com",
        "https://api.example.com\r\nX: y", " https://api.example.com", "https://[::1", None, 5,
        "https://a..example", "https://.", "https://.a", "https://-a.example", "https://[::1%1]",
        "https://[127.0.0.1]x",
    ],
)  # fmt: skip
def test_urls_that_are_not(url: Any) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        checked_url("base_url", url)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"client_id": "a b"}, "the text given as client_id is not accepted; give visible ASCII"),
        ({"client_id": "a\r\nb"}, "given as client_id"),
        ({"client_secret": 5}, "client_secret is an int; give text"),
        ({"client_secret": ""}, "client_secret is empty"),
        ({"client_secret": f"{CANARY}\n"}, "client_secret starts or ends with white space"),
        ({"signature_header": "A: b"}, "given as signature_header is not accepted; give an HTTP"),
        ({"signature_prefix": "a b"}, "given as signature_prefix is not"),
        ({"signing_key": "k.pem"}, "signing_key and signing_key_id go together"),
        ({"signing_key_id": "k"}, "signing_key and signing_key_id go together"),
        ({"call_timeout": 0}, "call_timeout=0.0 is not accepted; give a number above 0"),
        ({"call_timeout": "nan"}, "call_timeout=nan"),
        ({"rate_limit": "fast"}, "given as rate_limit is not accepted; give a number"),
        ({"sandbox": "maybe"}, "given as sandbox is not accepted; give true or false"),
        ({"rate_limit": 10**5000}, "the int given as rate_limit is not accepted; give a number"),
        ({"store": 5}, "the int given as store is not accepted; give the path of a folder"),
        ({"store": "~nobody-such/x"}, "given as store is not accepted; give the path of a folder"),
        ({"signing_keys": [CANARY]}, "the list given as signing_keys is not accepted; give a tab"),
        *(
            ({"balance_floor": floor}, "balance_floor is not accepted; give an amount by asset")
            for floor in ("USD=50,000", "usd=5", "USD=1,USD=2", "USD", "", {"usd": "5"}, {}, [])
        ),
        *(
            ({"balance_floor": floor}, "balance_floor is not accepted; give an amount as text")
            for floor in ("USD=", "USD=5=6", "USD=1e5", {"USD": 0.5})
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings.load(environ=ENVIRON, **change)


@pytest.mark.parametrize("given", ["USD=50000, EUR=7.5", {"USD": "50000", "EUR": "7.5"}])
def test_a_floor_of_each_asset(given: Any) -> None:
    found = Settings.load(environ=ENVIRON, balance_floor=given).balance_floor
    assert found == {"USD": 50_000, "EUR": Decimal("7.5")}


@pytest.mark.parametrize(
    "header", ["Authorization", "content-type", "HOST", "Content-Length", "X-Request-Id"]
)
def test_the_signature_has_a_header_of_its_own(header: str) -> None:
    with pytest.raises(SettingsError, match="signature_header is not accepted; give a header that"):
        Settings.load(environ=ENVIRON, signature_header=header)


INLINE = {"client_secret": "inline"}
IN_FILE = {"client_secret_file": "{folder}/secret"}
IN_KEYRING = {"client_secret_keyring": "entry"}


@pytest.mark.parametrize(
    ("profile", "environment", "keywords", "secret"),
    [
        (INLINE, {}, IN_FILE, "filed"),
        (INLINE, IN_FILE, {}, "filed"),
        (IN_FILE, INLINE, {}, "inline"),
        ({}, INLINE, IN_FILE, "filed"),
        ({}, INLINE, IN_KEYRING, "kept"),
        ({}, IN_FILE, IN_KEYRING, "kept"),
        (IN_KEYRING, IN_FILE, INLINE, "inline"),
        (IN_FILE, IN_KEYRING, {}, "kept"),
        (INLINE | IN_FILE, {}, {}, "inline"),
    ],
)
def test_a_secret_named_above_beats_one_named_below_in_any_way(
    profile: dict[str, str], environment: dict[str, str], keywords: dict[str, str], secret: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "secret").touch(0o600)
    (tmp_path / "secret").write_text("filed")
    layers = [
        {name: value.format(folder=tmp_path) for name, value in layer.items()}
        for layer in (profile, environment, keywords)
    ]
    table = "".join(f'{name} = "{value}"\n' for name, value in layers[0].items())
    environ = {name: value for name, value in ENVIRON.items() if "SECRET" not in name}
    environ |= {f"FUNDLAB_{name.upper()}": value for name, value in layers[1].items()}
    loaded = Settings.load(
        "p",
        environ=environ,
        config_file=config(tmp_path, f"[p]\n{table}"),
        keyring_password=lambda service, user: "kept",
        **layers[2],
    )
    assert loaded.client_secret.reveal() == secret


def files(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).touch(mode=0o600)
    return [folder / name for name in names]


def test_a_key_named_above_beats_one_named_below_in_either_way(tmp_path: Path) -> None:
    above, below = files(tmp_path, "above", "below")
    one = config(tmp_path, f'[p]\nsigning_key = "{below}"\nsigning_key_id = "k"\n')
    several = Settings.load("p", environ=ENVIRON, config_file=one, signing_keys={"k": above})
    assert several.signing_key == above
    table = config(tmp_path, f'[p]\nsigning_key_id = "k"\n[p.signing_keys]\nk = "{below}"\n')
    environ = ENVIRON | {"FUNDLAB_SIGNING_KEY": str(above)}
    assert Settings.load("p", environ=environ, config_file=table).signing_key == above


def test_one_of_several_keys_is_picked_by_its_id(tmp_path: Path) -> None:
    a, b = files(tmp_path, "a.pem", "b.pem")
    path = config(tmp_path, f'[p]\nsigning_key_id = "b"\n[p.signing_keys]\na = "{a}"\nb = "{b}"\n')
    settings = Settings.load("p", environ=ENVIRON, config_file=path)
    assert (settings.signing_key, settings.signing_key_id) == (b, "b")
    with pytest.raises(
        SettingsError, match="signing_key_id is none of signing_keys: give one of a, b"
    ):
        Settings.load("p", environ=ENVIRON, config_file=path, signing_key_id="c")


def test_a_secret_from_a_private_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{CANARY}\n")
    environ = {name: value for name, value in ENVIRON.items() if "SECRET" not in name}
    secret.chmod(0o644)
    with pytest.raises(SettingsError, match=r"client_secret_file .*mode 644.*chmod 600"):
        Settings.load(environ=environ, client_secret_file=secret)
    secret.chmod(0o600)
    loaded = Settings.load(environ=environ, client_secret_file=str(secret))
    assert loaded.client_secret == Secret(CANARY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{CANARY}\n{CANARY}\n".encode(), "has 2 lines; write the secret there as one line"),
        (f"{CANARY}é".encode("latin-1"), "is not text in UTF-8; write the secret there"),
        (b"\n", "client_secret is empty"),
        (b"", "client_secret is empty"),
    ],
)
def test_a_secret_file_that_holds_something_else(
    content: bytes, message: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_bytes(content)
    with pytest.raises(SettingsError, match=message) as caught:
        Settings.load(environ=ENVIRON, client_secret_file=secret)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_byte_order_mark_is_no_part_of_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_bytes(b"\xef\xbb\xbf" + f"{CANARY}é\r\n".encode())
    loaded = Settings.load(environ=ENVIRON, client_secret_file=secret)
    assert loaded.client_secret == Secret(f"{CANARY}é")


def test_a_secret_given_as_its_file_is_not_quoted() -> None:
    with pytest.raises(SettingsError, match="client_secret_file names no file") as caught:
        Settings.load(environ=ENVIRON, client_secret_file=CANARY)
    assert CANARY not in str(caught.value)


def test_a_secret_from_the_keyring() -> None:
    environ = {name: value for name, value in ENVIRON.items() if "SECRET" not in name}
    held = {("fundlab", "from-environment"): CANARY}
    loaded = Settings.load(
        environ=environ,
        client_secret_keyring="fundlab",
        keyring_password=lambda service, user: held.get((service, user)),
    )
    assert loaded.client_secret == Secret(CANARY)
    with pytest.raises(SettingsError, match="no password for service 'other' and user 'from-env"):
        Settings.load(
            environ=environ,
            client_secret_keyring="other",
            keyring_password=lambda service, user: held.get((service, user)),
        )


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A backend as the package keyring wants it."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


@pytest.fixture
def use_keyring() -> Iterator[Callable[[keyring.backend.KeyringBackend], None]]:
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


def test_a_secret_from_the_systems_own_keyring(
    use_keyring: Callable[[keyring.backend.KeyringBackend], None],
) -> None:
    environ = {name: value for name, value in ENVIRON.items() if "SECRET" not in name}
    environ["FUNDLAB_CLIENT_SECRET_KEYRING"] = "funding"
    use_keyring(MemoryKeyring())
    with pytest.raises(SettingsError, match="store it with: keyring set funding from-environment"):
        Settings.load(environ=environ)
    keyring.set_password("funding", "from-environment", CANARY)
    assert Settings.load(environ=environ).client_secret == Secret(CANARY)


def test_a_keyring_that_cannot_be_used_is_named(
    use_keyring: Callable[[keyring.backend.KeyringBackend], None],
) -> None:
    environ = {name: value for name, value in ENVIRON.items() if "SECRET" not in name}
    use_keyring(keyring.backends.fail.Keyring())
    with pytest.raises(SettingsError, match=r"cannot be used .NoKeyringError.*client_secret_file"):
        Settings.load(environ=environ, client_secret_keyring="funding")


def test_without_the_package_keyring_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    environ = {name: value for name, value in ENVIRON.items() if "SECRET" not in name}
    with pytest.raises(SettingsError, match=r"install .*\[keyring\]'"):
        Settings.load(environ=environ, client_secret_keyring="funding")


def test_a_misspelt_variable_is_named_beside_what_is_missing() -> None:
    environ = ENVIRON | {"FUNDLAB_CLIENTSECRET": CANARY, "FUNDLAB_LOG": "INFO"}
    del environ["FUNDLAB_CLIENT_SECRET"]
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ=environ)
    message = str(caught.value)
    assert (
        "FUNDLAB_CLIENTSECRET (did you mean FUNDLAB_CLIENT_SECRET?) is set, but is not a setting"
        in message
    )
    assert "FUNDLAB_LOG" not in message
    assert CANARY not in message


def test_settings_show_no_secret_and_are_not_pickled(tmp_path: Path) -> None:
    key = tmp_path / "k"
    key.touch(mode=0o600)
    settings = Settings.load(environ=ENVIRON, signing_key_password=CANARY, signing_key=key,
                             signing_key_id="k")  # fmt: skip
    for shown in (repr(settings), str(settings), str(vars(settings)), f"{settings}"):
        assert CANARY not in shown
        assert "Secret('***')" in shown
    for leak in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="not copied, pickled"):
            leak(settings.client_secret)
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not copied, pickled"):
            leak(settings)
    with pytest.raises(TypeError):
        json.dumps(settings.client_secret)
    with pytest.raises(TypeError):
        vars(settings.client_secret)
    with pytest.raises(AttributeError):
        settings.client_secret.reveal = lambda: ""
    assert settings.client_secret == Secret(CANARY)
    assert settings.client_secret != Secret("other")
    assert settings.client_secret != CANARY
    assert len({settings.client_secret, Secret(CANARY)}) == 1


def test_a_store_elsewhere_keeps_its_address() -> None:
    assert store_folder({"FUNDLAB_STORE": "s3://bucket/funds"}) == "s3://bucket/funds"


SANDBOX_PROFILE = """
[play]
base_url = "https://api.sandbox.example.com"
auth_url = "https://auth.sandbox.example.com"
client_id = "a"
client_secret = "s"
sandbox = true
"""


def test_a_leftover_sandbox_variable_makes_no_service_play_money(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = config(tmp_path, SANDBOX_PROFILE.replace("sandbox = true", ""))
    leftover = {"FUNDLAB_SANDBOX": "1"}
    assert Settings.load("play", environ=leftover, config_file=path).is_production
    assert "FUNDLAB_SANDBOX has no effect: no base_url stands beside it" in caplog.text
    rest = {name: value for name, value in ENVIRON.items() if name != "FUNDLAB_BASE_URL"}
    live = Settings.load(environ=rest | leftover, base_url="https://api.example.com")
    assert live.is_production
    assert not Settings.load(environ=ENVIRON | leftover).is_production
    assert not Settings.load(environ=ENVIRON, sandbox=True).is_production


@pytest.mark.parametrize(
    "same", ["https://API.sandbox.example.com", "https://api.sandbox.example.com/"]
)
def test_the_same_service_written_otherwise_is_the_same(tmp_path: Path, same: str) -> None:
    path = config(tmp_path, SANDBOX_PROFILE)
    assert not Settings.load("play", environ={}, config_file=path, base_url=same).is_production


def test_a_profiles_play_money_is_that_of_its_own_service(tmp_path: Path) -> None:
    path = config(tmp_path, SANDBOX_PROFILE)
    live = "https://api.example.com"
    assert not Settings.load("play", environ={}, config_file=path).is_production
    assert Settings.load("play", environ={}, config_file=path, base_url=live).is_production
    above = {"FUNDLAB_PROFILE": "play", "FUNDLAB_BASE_URL": live}
    assert Settings.load(environ=above, config_file=path).is_production
    meant = Settings.load(environ=above | {"FUNDLAB_SANDBOX": "true"}, config_file=path)
    assert not meant.is_production
    assert (
        Settings.load(environ=ENVIRON | {"FUNDLAB_SANDBOX": "1"}, base_url=live + "/v2").sandbox
        is False
    )
    same = {"FUNDLAB_BASE_URL": "https://api.sandbox.example.com", "FUNDLAB_PROFILE": "play"}
    assert not Settings.load(environ=same, config_file=path).is_production


def test_a_misspelt_variable_is_said_where_nothing_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loaded = Settings.load(environ=ENVIRON | {"FUNDLAB_WITHDRAWL_LIMIT": CANARY})
    assert loaded.withdrawal_limit is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].getMessage() == (
        "FUNDLAB_WITHDRAWL_LIMIT (did you mean FUNDLAB_WITHDRAWAL_LIMIT?) is set, but is not a "
        "setting: it has no effect"
    )


def test_a_misspelt_variable_is_said_where_only_the_store_is_wanted(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    store_folder({"FUNDLAB_STROE": "books"}, tmp_path / "none")
    assert "FUNDLAB_STROE (did you mean FUNDLAB_STORE?)" in caplog.text


def test_a_settings_file_that_cannot_be_looked_for(tmp_path: Path) -> None:
    closed = tmp_path / ("x" * 300) / "config.toml"
    with pytest.raises(SettingsError, match=r"cannot be read: File name too long"):
        Settings.load("play", environ={}, config_file=closed)
    with pytest.raises(SettingsError, match="which does not exist; write a table"):
        Settings.load("play", environ={}, config_file=tmp_path / "none.toml")


def test_settings_that_are_half_made_can_be_shown_without_their_secrets() -> None:
    """As a traceback shows one that was not checked yet: its secrets are texts still."""
    half = object.__new__(Settings)
    assert repr(half) == "Settings()"
    for field in dataclasses.fields(Settings):
        vars(half)[field.name] = CANARY if field.name.endswith(("_secret", "_password")) else "x"
        assert CANARY not in repr(half)
    assert "base_url='x'" in repr(half)
    assert "client_secret='***'" in repr(half)
