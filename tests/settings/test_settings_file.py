"""The profiles of ``config.toml``, as the command line and ``connect()`` find them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab import sandbox
from fundlab.base.errors import SettingsError
from fundlab.settings.settings import Settings, store_folder


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=3) as serving:
        yield serving


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the settings file of this user would be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "fundlab").mkdir(mode=0o700)
    return tmp_path / "fundlab" / "config.toml"


def write(config: Path, service: sandbox.Sandbox, first_line: str = "") -> None:
    config.write_text(
        f"""{first_line}
[production]
base_url = "{service.base_url}"
auth_url = "{service.auth_url}"
client_id = "{service.client_id}"
client_secret = "{service.client_secret}"
store = "{config.parent / "books"}"

[play]
base_url = "https://play.example.com"

[names]
"0190" = "Treasury USD"
""",
        encoding="utf-8",
    )
    config.chmod(0o600)


@pytest.mark.parametrize(
    "arguments", [("--profile", "production", "doctor"), ("doctor", "--profile", "production")]
)
def test_the_profile_is_chosen_before_or_after_the_command(
    config: Path, service: sandbox.Sandbox, fundlab: Any, arguments: tuple[str, ...]
) -> None:
    write(config, service)
    status, out, err = fundlab(*arguments)
    assert (status, err) == (0, "")
    assert service.base_url in out
    assert "FUNDLAB_PROFILE" not in os.environ


def test_a_profile_of_the_environment_or_of_the_file_itself(
    config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(config, service, 'profile = "production"')
    assert fundlab("doctor")[0] == 0
    assert store_folder() == config.parent / "books"
    with fl.connect() as client:
        assert client.client_id == service.client_id
    # What says of another service which it is gets nothing of the file's own choice.
    alone = r"missing: auth_url.* its line profile does not count beside a service given so; choose"
    with pytest.raises(SettingsError, match=alone):
        Settings.load(base_url="https://other.example.com")
    write(config, service)
    monkeypatch.setenv("FUNDLAB_PROFILE", "production")
    assert fundlab("doctor")[0] == 0
    assert fundlab("--profile", "play", "doctor")[0] == 1
    assert os.environ["FUNDLAB_PROFILE"] == "production"


def test_the_error_names_the_profiles_that_are_there(
    config: Path, service: sandbox.Sandbox, fundlab: Any
) -> None:
    _, _, err = fundlab("sync")
    assert f"a profile of {config}, which 'fundlab init' writes" in err
    write(config, service)
    status, _, err = fundlab("sync")
    assert status == 1
    assert (
        f"or in a profile: {config} has [production], [play]; choose one with --profile NAME, "
        "FUNDLAB_PROFILE or connect(NAME)" in err
    )
    assert (
        "has no table [names]; it has [production], [play]"
        in fundlab("sync", "--profile", "names")[2]
    )
    for name in ("Treasury USD", "Operations"):  # of the file, and of the sample
        said = f"[play]. {name} is a name of an id: give a funding profile with --of"
        assert said in " ".join(fundlab("transfers", "--profile", name)[2].split())
    _, _, err = fundlab("sync", "--profile", "play")
    assert "missing: auth_url (FUNDLAB_AUTH_URL)" in err
    assert f"or in [play] of {config}" in err


def test_the_version(fundlab: Any) -> None:
    assert fundlab("--version") == (0, f"fundlab {fl.__version__}\n", "")


def test_quiet_is_silent_while_all_is_well(
    config: Path, service: sandbox.Sandbox, fundlab: Any
) -> None:
    write(config, service, 'profile = "production"')
    assert fundlab("doctor", "--quiet") == (0, "", "")
    assert fundlab("-q", "sync") == (0, "", "")
    assert fundlab("verify", "--quiet") == (0, "", "")
    status, out, err = fundlab("doctor", "--quiet", "--profile", "play")
    assert (status, out[:4]) == (1, "FAIL")
    assert "1 of 1 checks failed" in err
    assert fundlab("verify")[1] != ""  # of the run before nothing is left


def test_a_shell_can_complete(monkeypatch: pytest.MonkeyPatch, fundlab: Any) -> None:
    assert "--show-completion" in fundlab("--help")[1]
    for name, value in {
        "_FUNDLAB_COMPLETE": "complete_bash", "COMP_WORDS": "fundlab sync --pro", "COMP_CWORD": "2",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert fundlab() == (0, "--profile\n", "")
