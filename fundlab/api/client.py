"""The service as an object: one method for each operation of the interface (§4).

``connect()`` makes a ``Client`` from keywords, the environment or a profile of the settings file.
"""

from __future__ import annotations

from typing import Unpack, cast

from fundlab.api.crypto import CryptoOperations
from fundlab.api.fiat import FiatOperations
from fundlab.api.records import RecordOperations
from fundlab.api.signing import Signer
from fundlab.settings import SettingKeywords, Settings, masked


def connect(
    profile: str | None = None,
    *,
    signer: Signer | None = None,
    **settings: Unpack[SettingKeywords],
) -> Client:
    """A client for the service named by ``settings``, the environment or ``profile``.

    Keywords are the fields of ``Settings`` (``base_url``, ``auth_url``, ``client_id``,
    ``client_secret``, ``signing_key`` …); ``profile`` is a table of ``config.toml`` in the user's
    configuration folder. ``signer`` signs instead of ``signing_key``: a key in an HSM or a KMS.
    Nothing is sent yet. Raises ``SettingsError`` naming what is missing, unknown or unsafe.

    >>> with fl.connect(
    ...     base_url=sandbox.base_url,
    ...     auth_url=sandbox.auth_url,
    ...     client_id=sandbox.client_id,
    ...     client_secret=sandbox.client_secret,
    ... ) as client:
    ...     balance = client.get_profile_balance(sandbox.profile_ids[0], "USD")
    >>> balance.asset
    'USD'
    """
    settings = cast(
        "SettingKeywords", masked(settings)
    )  # a traceback shows the locals of this function too
    return Client(Settings.load(profile, **settings), signer=signer)


class Client(FiatOperations, RecordOperations, CryptoOperations):
    """A connection to the service, for any number of threads. Close it, or use it in ``with``.

    ``base_url`` and ``client_id`` say whom it talks to, and as whom. Every operation takes the
    interface's fields as keywords (a dotted ``created_at.gte`` is ``created_at_gte``) and checks
    them before anything is sent (``InvalidRequest``). It raises a ``CallError``: ``ServiceError``
    when the service says no, ``NetworkError`` when no usable answer arrives, ``ProtocolError`` when
    the answer is not the interface's.

    Lists come as ``Rows``: lazily, over all pages. ``page_size`` is how many rows one answer holds,
    ``max_rows`` how many come in all, ``page_cursor`` where to start. Filters take one text or any
    iterable of them, asked for in hundreds; of an empty one come no rows. Times are aware
    ``datetime``s, RFC 3339 text, or in UTC a ``date`` or NumPy's ``datetime64``. Rows that do not
    show what a filter is about are kept, with a warning; ids compare without regard to case.

    Reads are tried again when the network or the service falters. What changes something is tried
    again only with a ``ref_id``, by which the service knows it: a second call with the same
    ``ref_id`` and arguments returns what the first one made; with other arguments it raises
    ``Conflict``.

    >>> newest = client.list_transfers(type="WIRE_DEPOSIT", order="DESC", max_rows=2)
    >>> [str(transfer.status) for transfer in newest]
    ['PENDING', 'COMPLETED']
    >>> str(client.get_profile_balance(sandbox.profile_ids[0], "USD").trading)
    '0.00'
    """
