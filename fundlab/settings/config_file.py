"""The settings file, ``config.toml`` of the user's configuration folder: profiles, one of which it
may name itself, and names of people's own for ids.

What it holds stays wrapped until it is used. A profile is written into it as text, so that what
else stands there stays, comments too; the result is read back before it takes the file's place.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from platformdirs import user_config_dir

from fundlab.base.atomic_files import unfinished
from fundlab.base.errors import SettingsError
from fundlab.settings.secret import Masked, read_private

CONFIG_NAME: Final = "config.toml"
CHOSEN: Final = "profile"
"""The key that names the file's own choice of a profile."""
NAMES: Final = "names"
"""The table that names ids."""
_PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)
_HEADER: Final = re.compile(r"\s*\[")


def config_path() -> Path:
    """Where the file is, or would be."""
    return Path(user_config_dir("fundlab")) / CONFIG_NAME


def is_there(path: Path) -> bool:
    """Whether there is a file, also one that cannot be reached: reading it says what is wrong."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def read_config(path: Path) -> dict[str, Masked]:
    """What the file holds, by the names at its top level. Raises ``SettingsError`` where others
    may use it, or it is not TOML."""
    content, config = Masked(read_private(path, "the settings file")), None
    with suppress(ValueError, RecursionError):  # message and context could quote a secret
        config = _parsed(content.reveal().decode("utf-8"))
    if config is None:
        raise SettingsError(f"{path} is not TOML in UTF-8; correct it, or move it away")
    return config


def profile_names(config: Mapping[str, Masked]) -> list[str]:
    """Of its tables those that are profiles."""
    return [n for n, value in config.items() if n != NAMES and isinstance(value.reveal(), dict)]


def check_profile_name(name: str) -> None:
    """Raises ``SettingsError`` for a name that no profile can have."""
    if not _PROFILE_NAME.fullmatch(name) or name in (NAMES, CHOSEN):
        raise SettingsError(
            f"{name!r} is not a valid name of a profile; give letters, digits, '-' and '_'"
        )


def write_profile(path: Path, name: str, values: Mapping[str, Any], drop: Collection[str]) -> None:
    """Write the profile ``name`` with ``values``, some of them wrapped. Of one that is there the
    settings ``drop`` go, and others stay as they are. The file's first profile becomes its choice.

    The file gets mode 0600, its folder 0700; it is replaced at once. Raises ``SettingsError``
    where it cannot be written, or what is there is not understood well enough to be kept.
    """
    check_profile_name(name)
    _write_table(path, name, values, drop)


def write_names(path: Path, names: Mapping[str, str]) -> None:
    """Write names for ids that have none yet, as :func:`write_profile` writes a profile."""
    _write_table(path, NAMES, names, ())


def _write_table(path: Path, name: str, values: Mapping[str, Any], drop: Collection[str]) -> None:
    path = path.resolve()  # where it is kept elsewhere, and linked
    before = read_config(path) if is_there(path) else {}
    text = Masked(path.read_text(encoding="utf-8-sig") if before else "")
    merged = _merged(before, text, name, values, drop)
    if merged is None:
        raise SettingsError(
            f"[{name}] cannot be written into {path} without changing what else is there; "
            "write the table by hand" + ", or take another name" * (name != NAMES)
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        with unfinished(path, 0o600) as hidden:
            with hidden.open("w", encoding="utf-8") as file:
                file.write(merged.reveal())
                file.flush()
                os.fsync(file.fileno())
            hidden.rename(path)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written: {error.strerror}; nothing changed"
        ) from None


def _merged(
    before: Mapping[str, Masked],
    text: Masked,
    name: str,
    values: Mapping[str, Any],
    drop: Collection[str],
) -> Masked | None:
    """``text``, the file ``before``, with the profile in it; ``None`` where it would not be what
    was wanted. Nothing is raised here, where plain secrets are."""
    old = before[name].reveal() if name in before else {}
    if not isinstance(old, dict):
        return None
    new = {key: v.reveal() if isinstance(v, Masked) else v for key, v in values.items()}
    kept = {key: value for key, value in old.items() if key not in {*drop, *new}}
    after = {key: value.reveal() for key, value in before.items()} | {name: kept | new}
    written = text.reveal().rstrip("\n").split("\n") if text.reveal() else []
    if not profile_names(before) and CHOSEN not in before:
        after[CHOSEN] = name
        written.insert(0, f"{CHOSEN} = {_toml(name)}")
    lines = [f"{key} = {_toml(value)}" for key, value in new.items()]
    header = next((n for n, line in enumerate(written) if line.strip() == f"[{name}]"), None)
    if header is None:
        written += ["", f"[{name}]", *lines]
    else:
        ends = (n for n, line in enumerate(written) if n > header and _HEADER.match(line))
        end = next(ends, len(written))
        gone = re.compile(rf"\s*(?:{'|'.join(map(re.escape, {*drop, *new}))})\s*=")
        stays = [line for line in written[header + 1 : end] if not gone.match(line)]
        written[header + 1 : end] = [*lines, *stays]
    result = "".join(f"{line}\n" for line in written)
    with suppress(ValueError):
        if {key: value.reveal() for key, value in _parsed(result).items()} == after:
            return Masked(result)
    return None


def _parsed(text: str) -> dict[str, Masked]:
    return {name: Masked(value) for name, value in tomllib.loads(text).items()}


def _toml(value: Any) -> str:
    plain = value if isinstance(value, bool | int) else str(value)
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's may be plain
