"""What an id is called: by the name that the user gave it in the table ``[names]`` of the settings
file, else by its first and last characters."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from fundlab.base.errors import InvalidRequest, SettingsError, printable, with_likely
from fundlab.settings.config_file import NAMES, config_path, read_config
from fundlab.settings.secret import Masked

log = logging.getLogger(__name__)
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_SHOWN_WHOLE: Final = 12


OF_THE_SAMPLE: Final[Mapping[str, str]] = {
    "8d0df1a2-a964-4283-b477-6aaf6c7cd2ed": "Treasury",
    "28968992-3e75-45cb-84f7-1777cf1ead4b": "Operations",
    "791c8f1d-5482-41d0-b515-66fbef21d92a": "Payouts",
    "b3481fea-1560-43f4-80a4-8d12556bed80": "Reserve",
    "16b44e1e-8e77-4571-8f1d-edbaef7cd4b7": "Clearing",
}
"""Its profiles, and the fifth that a sandbox of the same seed has."""


def names_given() -> Mapping[str, str]:
    """The names of profiles, accounts and addresses, by their ids in small letters, and those of
    the sample. What cannot be read is a warning, and names nothing."""
    path = config_path()
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        return OF_THE_SAMPLE
    return {**OF_THE_SAMPLE, **_read(path, changed_ns)}


@lru_cache(maxsize=1)
def _read(path: Path, changed_ns: int) -> dict[str, str]:  # noqa: ARG001 - read anew when changed
    try:
        labels = read_config(path).get(NAMES, Masked({})).reveal()
    except SettingsError as error:
        log.warning("ids are shown without names: %s", error)
        return {}
    if not isinstance(labels, dict) or not all(isinstance(one, str) for one in labels.values()):
        log.warning('ids are shown without names: [names] of %s must hold id = "name"', path)
        return {}
    strange = [key for key in labels if not UUID.fullmatch(key)]
    if strange:
        log.warning(
            "[names] of %s: %r is not an id, so it names nothing; 'fundlab profiles' lists ids",
            path,
            strange[0],
        )
    return {key.lower(): printable(name) for key, name in labels.items()}


def name_of(identifier: str) -> str | None:
    """What the user calls ``identifier``, if anything."""
    return names_given().get(identifier.lower())


def id_of(name: str) -> str:
    """The id of the funding profile, account or address of this name: one that ``[names]`` of
    config.toml or the sample gives it. An id is given back, in small letters.

    Raises ``InvalidRequest`` where nothing has the name, or several have it.

    >>> fl.id_of("Treasury")
    '8d0df1a2-a964-4283-b477-6aaf6c7cd2ed'
    """
    if UUID.fullmatch(name):
        return name.lower()
    names = names_given()
    ids = [id_ for id_, given in names.items() if given == name]
    if len(ids) > 1:  # the user's own name before the sample's
        ids = [id_ for id_ in ids if OF_THE_SAMPLE.get(id_) != name] or ids
    if len(ids) == 1:
        return ids[0]
    said = f"{with_likely(name, names.values())} is neither an id nor a name known here"
    if ids:
        said = f"{name!r} is the name of {len(ids)} ids: give the id"
    raise InvalidRequest(
        f"{said}; 'fundlab profiles' lists ids, and [names] of config.toml gives them names"
    )


def with_name(identifier: str) -> str:
    """``identifier`` in full, behind its name if it has one: for what somebody is to confirm."""
    name = name_of(identifier)
    return identifier if name is None else f"{name} · {identifier}"


def labels(identifiers: Iterable[str], names: Mapping[str, str]) -> dict[str, str]:
    """How each id is shown, no two alike: by its name, if it has one, else shortened; where that
    is not enough, with more of the id."""
    ids = dict.fromkeys(identifiers)
    called = {one: names.get(one.lower()) for one in ids}
    ways = (
        {one: name or shorten_id(one) for one, name in called.items()},
        {one: f"{name} ({shorten_id(one)})" if name else one for one, name in called.items()},
        {one: f"{name} ({one})" if name else one for one, name in called.items()},
    )
    counts = [Counter(way.values()) for way in ways]
    return {
        one: next((way[one] for way, times in zip(ways, counts, strict=True)
                   if times[way[one]] == 1), one)
        for one in ids
    }  # fmt: skip


def shorten_id(identifier: str) -> str:
    """A UUID by its first and last characters: ``3f2a…9c1d``.

    >>> fl.charts.shorten_id("3f2a77d1-0000-4000-8000-0000000c9c1d")
    '3f2a…9c1d'
    """
    whole = len(identifier) <= _SHOWN_WHOLE
    return identifier if whole else f"{identifier[:4]}…{identifier[-4:]}"
