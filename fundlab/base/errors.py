"""Everything fundlab raises on purpose.

::

    FundlabError
    ├── SettingsError            a setting is missing, malformed or unsafe
    ├── InvalidRequest           refused here, before anything was sent
    ├── CallError                a call to the service did not bring what was asked for
    │   ├── NetworkError         no usable answer arrived
    │   │   └── DeadlineExceeded the call's time was used up
    │   ├── SigningFailed        the signer gave no signature; this attempt was not sent
    │   ├── ProtocolError        an answer that is not the interface's (not JSON, wrong shape)
    │   │   └── DataError        one record of it is malformed: table, page, record, field, value
    │   └── ServiceError         the service said no (RFC 9457 problem)
    │       ├── ValidationFailed     400
    │       ├── AuthenticationFailed 401, and invalid_client at the token endpoint
    │       ├── PermissionDenied     403
    │       │   ├── ScopeMissing     403 or invalid_scope: ask the administrator
    │       │   └── InsufficientFunds
    │       ├── NotFound             404
    │       ├── Conflict             409: the ref_id stands for something else
    │       ├── RateLimited          429
    │       └── Unavailable          5xx, 408, 425
    ├── StoreError               the store cannot be used as asked
    │   ├── StoreLocked          another run holds it
    │   ├── CloseRefused         something stands in the way of closing a period
    │   ├── StoreChanged         a compaction took a file away while it was read: read again
    │   └── StoreDamaged         a file is not what was written
    ├── AnalysisError            a frame or argument an analysis cannot use as asked
    │   └── StatementError       a bank statement contradicts itself; .findings says where
    ├── OutputError              a file or folder could not be written
    ├── ActionError              a plan, confirmation or wait that cannot go on
    │   └── ActionRefused        refused here before anything was sent; .reason names the rule
    └── SandboxError             the embedded sandbox could not start, stop or do as asked

    UserWarning
    ├── UnknownValueWarning      an enumeration value that the interface does not list; it is kept
    ├── EmptyListWarning         a list of the service had no array: it is taken for an empty one
    ├── ContradictionWarning     a page had one id twice, and not the same row: the newest is taken
    ├── SetAsideWarning          rows that cannot be read were set aside, and are not in the frame
    ├── MixedAssetsWarning       amounts of several assets were added up
    ├── CardWarning              a payment is not as its card showed it: another fee, say
    ├── UnmappedWarning          a chart of accounts has no rule for a posting
    ├── UnpricedWarning          amounts without a price, or with too old a one, have no value
    ├── OtherSideWarning         a bank statement of the other side's account, by its looks
    └── IgnoredFilterWarning     the service ignored a filter; its rows are checked here
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

__name__ = "fundlab.errors"  # where people import them, and so what a traceback and a pickle say

__all__ = [
    "ActionError",
    "ActionRefused",
    "AnalysisError",
    "AuthenticationFailed",
    "CallError",
    "CardWarning",
    "CloseRefused",
    "Conflict",
    "ContradictionWarning",
    "DataError",
    "DeadlineExceeded",
    "EmptyListWarning",
    "FundlabError",
    "IgnoredFilterWarning",
    "InsufficientFunds",
    "InvalidRequest",
    "MixedAssetsWarning",
    "NetworkError",
    "NotFound",
    "OtherSideWarning",
    "OutputError",
    "PermissionDenied",
    "ProtocolError",
    "RateLimited",
    "SandboxError",
    "ScopeMissing",
    "ServiceError",
    "SetAsideWarning",
    "SettingsError",
    "SigningFailed",
    "StatementError",
    "StoreChanged",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "Unavailable",
    "UnknownValueWarning",
    "UnmappedWarning",
    "UnpricedWarning",
    "ValidationFailed",
]
__dir__ = __all__.copy  # what completion offers

_JOINERS: Final = "\u200c\u200d"  # of letters in Persian or Hindi names, and of emoji


class FundlabError(Exception):
    """Root of every error fundlab raises on purpose. ``str()`` says what and what to do."""


class SettingsError(FundlabError):
    """A setting is missing, malformed or unsafe."""


class InvalidRequest(FundlabError):
    """The request breaks the interface's rules; nothing was sent."""


class CallError(FundlabError):
    """A call to the service did not bring what was asked for.

    Attributes: ``operation`` (snake case), ``request_id`` and ``hint`` (what to do next), each
    ``None`` where unknown; ``status`` (HTTP) if an answer came; ``title``, ``detail`` and ``meta``
    of the service's problem, ``None`` and empty where it sent none; ``in_doubt``: the call may have
    been carried out in spite of the error; ``refused``: the service itself said that it was not;
    ``unsent``: no byte of it left. Can be pickled.
    """

    in_doubt: bool = False
    refused: bool = False
    unsent: bool = False
    status: int | None = None
    title: str | None = None
    detail: str | None = None

    def __init__(
        self,
        problem: str,
        *,
        hint: str | None = None,
        operation: str | None = None,
        request_id: str | None = None,
        status: int | None = None,
    ) -> None:
        self.problem, self.hint, self.status = problem, hint, status
        self.operation, self.request_id = operation, request_id
        self.meta: dict[str, Any] = {}
        super().__init__(f"{problem}; {hint}" if hint else problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))

    def doubted(self) -> CallError:
        """The same error of a call that may have been carried out, which it says first."""
        named, text = f"{self.operation}: ", str(self).replace("nothing was sent; ", "")
        said = f"{named}it may have been carried out; {text.removeprefix(named)}"
        state = vars(self) | {"in_doubt": True, "refused": False, "unsent": False}
        return _restored(type(self), (said,), state)


def _restored(kind: type[CallError], args: tuple[str, ...], state: dict[str, Any]) -> CallError:
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class NetworkError(CallError):
    """No usable answer arrived: connection refused, reset, cut short or too slow."""


class DeadlineExceeded(NetworkError):
    """The whole call, retries included, took longer than it may."""


class SigningFailed(CallError):
    """The signer raised or gave no signature; ``__cause__`` is what it raised, if it did."""


class ProtocolError(CallError):
    """An answer arrived that the interface does not describe (not JSON, wrong shape, endless)."""


class DataError(ProtocolError):
    """One record is malformed, so nothing of its page is kept.

    Attributes: ``table``, ``page`` (number from 1 or ``None``), ``record`` (id, or position in the
    page), ``field`` and ``value``; ``raw``: the JSON of an answer that is one record, unless it
    holds account numbers.
    """

    def __init__(
        self,
        problem: str,
        *,
        table: str,
        page: int | None = None,
        record: str | None = None,
        field: str | None = None,
        value: object = None,
        raw: str | None = None,
        hint: str | None = None,
        operation: str | None = None,
        request_id: str | None = None,
    ) -> None:
        where = [table]
        if page is not None:
            where.append(f"page {page}")
        if record is not None:
            where.append(f"record {printable(record[:80])}")
        if field is not None:
            where.append(f"field {field!r}")
        shown = f": {shorten(value)}" if value is not None else ""
        text = f"{', '.join(where)}: {problem}{shown}"
        super().__init__(text, hint=hint, operation=operation, request_id=request_id)
        self.problem, self.table, self.page = problem, table, page
        self.record, self.field, self.value, self.raw = record, field, value, raw

    @property
    def reason(self) -> str:
        """What is wrong with the record, for who sees the record beside it."""
        said = self.problem.removeprefix("amount ")
        return f"{self.field}: {said}" if self.field else said


class ServiceError(CallError):
    """The service answered with an error (interface §7; body as RFC 9457).

    ``status`` (HTTP) and ``title`` are always there; ``type`` is the problem's URI.
    """

    status: int
    title: str

    def __init__(
        self,
        status: int,
        title: str,
        detail: str | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        type: str = "about:blank",
        operation: str | None = None,
        request_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        text = f"{operation}: " if operation else ""
        text += f"{status} {title}" + (f": {detail}" if detail else "")
        super().__init__(text, hint=hint, operation=operation, request_id=request_id, status=status)
        self.title, self.detail, self.type = title, detail, type
        self.meta = dict(meta or {})


class ValidationFailed(ServiceError):
    """400: the service found a field, cursor or limit invalid."""


class AuthenticationFailed(ServiceError):
    """401: token or signature missing, unknown or expired; or the client is unknown."""


class PermissionDenied(ServiceError):
    """403."""


class ScopeMissing(PermissionDenied):
    """The credential lacks the scope of the operation."""


class InsufficientFunds(PermissionDenied):
    """403: the available balance does not cover amount plus fee."""


class NotFound(ServiceError):
    """404: no such resource, or one of another customer."""


class Conflict(ServiceError):
    """409: the ``ref_id`` was used before; ``meta["existing"]`` is what it made."""

    @property
    def existing(self) -> Mapping[str, Any]:
        """What the service says of that resource, of a rule too; empty where it says nothing."""
        found = self.meta.get("existing")
        if isinstance(found, Mapping) and isinstance(found.get("rule"), Mapping):
            found = found["rule"]
        return found if isinstance(found, Mapping) else {}


class RateLimited(ServiceError):
    """429: too many requests."""


class Unavailable(ServiceError):
    """5xx, 408 or 425: the service cannot answer now."""


class StoreError(FundlabError):
    """The store cannot be used as asked."""


class StoreLocked(StoreError):
    """Another run holds the store."""


class CloseRefused(StoreError):
    """A period cannot be closed; ``obstacles`` is what stands in the way, a line for each."""

    def __init__(self, period: str, obstacles: Iterable[str], advice: str) -> None:
        self.period, self.obstacles, self.advice = period, tuple(obstacles), advice
        super().__init__(f"{period} cannot be closed: {' '.join(self.obstacles)} {advice}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.period, self.obstacles, self.advice)


class StoreChanged(StoreError, FileNotFoundError):
    """A compaction took a file away while it was read: read again, and all is there."""


class StoreDamaged(StoreError):
    """A file of the store is not what was written.

    ``path`` is the file, or the folder it is missing from, ``None`` where unknown; ``problem`` what
    is wrong with it, without the next step.
    """

    def __init__(self, problem: str, *, path: object = None, hint: str | None = None) -> None:
        self.problem, self.path = problem, None if path is None else str(path)
        text = problem if path is None else f"{path}: {problem}"
        super().__init__(f"{text}; {hint}" if hint else text)


class AnalysisError(FundlabError):
    """A frame or argument an analysis cannot use: a column, value or row it will not guess at."""


class StatementError(AnalysisError):
    """A bank statement contradicts itself, or the one before it: nothing of it is used.

    Attributes, of the first contradiction: ``file``, ``line``, ``statement``, ``rule``,
    ``declared``, ``found`` (texts); ``findings`` are all of them.
    """

    def __init__(self, findings: Sequence[Any], advice: str) -> None:
        self.findings, self.advice = tuple(findings), advice
        first = self.findings[0]
        self.file, self.line, self.statement = first.file, first.line, first.statement
        self.rule, self.declared, self.found = first.rule, first.declared, first.found
        more = len(self.findings) - 1
        super().__init__(f"{first}{f' (and {more} more)' if more else ''}; {advice}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.findings, self.advice)


class OutputError(FundlabError):
    """A file or folder could not be written."""


class ActionError(FundlabError):
    """A plan, confirmation or wait cannot go on."""


class ActionRefused(ActionError):
    """Refused here before anything was sent; ``str()`` says why and what to do.

    Attributes: ``reason`` names the rule: ``account_not_approved``, ``insufficient_balance``,
    ``own_limit``, ``balance_floor``, ``expired``, ``balance_changed``, ``fee_changed``,
    ``account_changed``, ``wrong_environment``, ``code``, ``amount``, ``memo``, ``duplicate``,
    ``end_user``, ``ref_id``, ``in_doubt`` (whether a ``ref_id`` stands for this payment cannot be
    said), ``restored_journal``, ``batch`` or ``approval``.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(printable(message))  # with names of owners, as the service has them

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return type(self), (self.reason, str(self))


class SandboxError(FundlabError):
    """The embedded sandbox could not start, stop or do as asked."""


class UnknownValueWarning(UserWarning):
    """The service sent an enumeration value that the interface does not list; it is kept as is."""


class EmptyListWarning(UserWarning):
    """The array of a list is null or absent: taken for a list without rows."""


class ContradictionWarning(UserWarning):
    """A page has one row more than once, with other members each time."""


class SetAsideWarning(UserWarning):
    """Rows that cannot be read are left out, and named in ``frame.attrs["set_aside"]``."""


class MixedAssetsWarning(UserWarning):
    """A result adds up amounts of several assets, which is not an amount of anything."""


class CardWarning(UserWarning):
    """A payment was made, and not as its card showed it: another fee, amount or account."""


class UnmappedWarning(UserWarning):
    """A chart of accounts has no rule for a posting; it goes to ``Equity:Unmapped``."""


class UnpricedWarning(UserWarning):
    """Amounts of assets without a price, or with too old a one, have no value."""


class OtherSideWarning(UserWarning):
    """A bank statement looks like one of the other side's account."""


class IgnoredFilterWarning(UserWarning):
    """The service ignored a filter (rows that do not belong are left out here), or rows do not show
    what it is about (they are kept)."""


def shorten(value: object, limit: int = 80) -> str:
    """``repr`` of ``value``, cut to about ``limit`` characters, for messages."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def first_line(error: Exception) -> str:
    """What an engine or library says, in one line: without a query and the place in it."""
    said = str(error).strip().splitlines()
    return printable(said[0]) if said else type(error).__name__


def reason_of(error: Exception) -> str:
    """What the system says of what failed; without that, what ``error`` says."""
    return str(getattr(error, "strerror", None) or error)


def a_type(value: object, of: str = "") -> str:
    """What ``value`` is, with an article: ``an int``, ``a UUID``; ``of`` a library, ``an ibis
    Table``."""
    name = f"{of} {type(value).__name__}".lstrip()
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def number_of(count: int, noun: str) -> str:
    """``1 file``, ``2,000 files`` or ``2 entries``."""
    several = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first of ``names``, ready to be printed, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(printable, names[:most])) + more


def install_command(extra: str = "") -> str:
    """What a shell takes to add ``extra`` to this installation, by default all that it needs: from
    the folder it came from, if it came from one, by the installer that there is."""
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec
    from urllib.parse import unquote, urlsplit

    try:
        origin = json.loads(distribution("fundlab").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    wanted = ["fundlab"]
    if "dir_info" in origin:
        editable = ["-e"] * bool(origin["dir_info"].get("editable"))
        wanted = [*editable, unquote(urlsplit(origin["url"]).path)]
    wanted[-1] += f"[{extra}]" if extra else ""
    return f"{'pip' if find_spec('pip') else 'uv pip'} install {shlex.join(wanted)}"


def with_likely(name: str, known: Iterable[str]) -> str:
    """``name``, and which of ``known`` it may be a slip for."""
    likely = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{name} (did you mean {likely[0]}?)" if likely else name


def printable(line: str) -> str:
    """``line`` with a mark for every character that would move, repaint or turn round its text.

    Spaces of every width, which names have in many scripts, become plain ones.
    """
    if line.isprintable():
        return line
    return "".join(
        char
        if char.isprintable() or char in _JOINERS
        else " "
        if char == "\t" or unicodedata.category(char) == "Zs"
        else "\ufffd"
        for char in line
    )
