"""What a JSON column holds, as columns of its own or as mappings."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fundlab.base.errors import InvalidRequest, a_type
from fundlab.base.values import id_text
from fundlab.models import FiatAccount
from fundlab.models.resources import BankSummary
from fundlab.tables.schema import is_id

if TYPE_CHECKING:
    import pandas as pd

_account: Final = msgspec.json.Decoder(dict[str, Any])
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_exact: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def expand(frame: pd.DataFrame, column: str = "object") -> pd.DataFrame:
    """``frame`` with a column for each member of the JSON objects in ``column``, in its place.

    The new ones are called ``object_id``, ``object_status`` …, in the order of the alphabet
    (``object.type`` where the frame has an ``object_type`` of its own), and are ``string``: texts
    as they are, the ids in an event's ``object`` as in the other tables, anything else as its own
    JSON. Where a row lacks a member it is missing. What is no object stays where it is.

    Raises ``InvalidRequest`` for a column that is not there or holds no JSON, or some that is
    nested too deep.
    """
    import pandas as pd

    values = [_read(text, column) for text in _texts(frame, column)]
    objects = [one if isinstance(one, dict) else {} for one in values]
    names = sorted({name for one in objects for name in one})
    there = list(frame.columns).index(column) + 1
    others = set(map(str, frame.columns))
    columns = {
        f"{column}{'.' if f'{column}_{name}' in others else '_'}{name}": pd.array(
            [_plain(one.get(name), column == "object" and is_id(name)) for one in objects],
            dtype="string",
        )
        for name in names
    }
    taken = sorted(set(columns) & others)
    if taken:
        raise InvalidRequest(f"column={column!r}: {', '.join(taken)} exist already; rename them")
    new = pd.DataFrame(columns, index=frame.index)
    wide = pd.concat([frame.iloc[:, :there], new, frame.iloc[:, there:]], axis=1)
    wide.attrs = dict(frame.attrs)  # what is known of its rows
    if all(isinstance(one, dict) or one is None for one in values):
        wide = wide.drop(columns=column)
    return wide


def maps(texts: pd.Series[Any]) -> pd.Series[Any]:
    """JSON texts, such as ``metadata``, as mappings; a missing one is an empty mapping.

    Numbers keep their digits: those with a point are ``Decimal``.
    """
    import pandas as pd

    name = str(texts.name or "texts")
    frame = pd.DataFrame({name: texts})
    read: list[dict[str, Any]] = []
    for text in _texts(frame, name):
        try:
            read.append({} if text is None else _exact.decode(text))
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidRequest(f"column={name!r}: {str(text)[:80]!r}: {error}") from None
    return pd.Series(read, index=texts.index, name=texts.name, dtype=object)


def member(text: str, name: str, *, of_id: bool = False) -> str | None:
    """What the JSON object ``text`` holds under ``name``: a text as it is, or as the tables have an
    id of the service, anything else as its own JSON. ``None`` where that is nothing or null, or the
    text not an object or nested too deep."""
    try:
        return _plain(_members.decode(text).get(name), of_id)
    except (msgspec.ValidationError, RecursionError):
        return None


def _texts(frame: pd.DataFrame, column: str) -> list[str | None]:

    if column not in frame.columns:
        raise InvalidRequest(f"column={column!r}: there are {', '.join(map(str, frame.columns))}")
    gone = frame[column].isna().tolist()
    texts = [None if lost else one for one, lost in zip(frame[column].tolist(), gone, strict=True)]
    if others := [one for one in texts if not isinstance(one, str | None)]:
        raise InvalidRequest(f"column={column!r} holds {a_type(others[0])}; give one of JSON text")
    return texts


def _read(text: str | None, column: str) -> dict[str, msgspec.Raw] | str | None:
    if text is None:
        return None
    try:
        return _members.decode(text)
    except msgspec.ValidationError:
        return text
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"column={column!r}: {text[:80]!r} is not JSON, or too deep: {error}"
        ) from None


def _plain(raw: msgspec.Raw | None, of_id: bool = False) -> str | None:
    if raw is None or bytes(raw) == b"null":
        return None
    text = bytes(raw).decode()
    text = msgspec.json.decode(raw, type=str) if text.startswith('"') else text
    return id_text(text) if of_id else text


def bank_summary(owner: Any, instructions: Any) -> BankSummary:
    """``FiatAccount.summary`` of the two columns of ``fiat_accounts`` that hold JSON. What cannot
    be read says nothing."""
    members: dict[str, Any] = {"id": "-"}
    for name, text in (("fiat_account_owner", owner), ("fiat_network_instructions", instructions)):
        try:
            account = FiatAccount.model_validate({"id": "-", name: _account.decode(text)})
        except (msgspec.MsgspecError, ValueError, TypeError):  # before 0.19 no ValueError
            continue
        members[name] = getattr(account, name)
    return FiatAccount.model_validate(members).summary
