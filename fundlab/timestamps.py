"""Time stamps (RFC 3161): an authority signs that it has seen an anchor, and when.

Needs ``rfc3161-client``, the extra ``timestamp``. Only the hash of the anchor goes to the
authority; its answer is signed, so that plain ``http://``, which most of them speak, does no harm.
"""

from __future__ import annotations

import re
import warnings
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fundlab.base.errors import InvalidRequest, NetworkError, SettingsError, first_line

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse, VerifierBuilder

_WAIT_S: Final = 30
_LARGEST_BYTES: Final = 1 << 20
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)
_QUERY: Final = "application/timestamp-query"


@dataclass(frozen=True)
class Stamp:
    """``at`` when, by the authority's clock, and the name in its certificate."""

    at: datetime
    authority: str

    def __str__(self) -> str:
        return f"time-stamped at {self.at:%Y-%m-%d %H:%M:%S} UTC by {self.authority}"


def stamp(text: str, url: str, roots: Path | None = None) -> str:
    """What the authority at ``url`` answers for ``text``, checked as :func:`check_stamp` does; in
    base64.

    Raises ``NetworkError`` where it does not answer, ``InvalidRequest`` for what is not an address,
    ``SettingsError`` for an answer that is not a time stamp of this text.
    """
    import requests

    with _library():
        from rfc3161_client import HashAlgorithm, TimestampRequestBuilder, VerifierBuilder
    builder = TimestampRequestBuilder().data(text.encode()).hash_algorithm(HashAlgorithm.SHA256)
    asked = builder.nonce(nonce=True).cert_request(cert_request=True).build()
    try:
        with requests.post(
            url, data=asked.as_bytes(), headers={"Content-Type": _QUERY}, timeout=_WAIT_S,
            stream=True, allow_redirects=False,
        ) as answer:  # fmt: skip
            body = answer.raw.read(_LARGEST_BYTES, decode_content=True)
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema,
            requests.exceptions.MissingSchema) as error:  # fmt: skip
        raise InvalidRequest(f"{url!r} is not the address of a time-stamp authority") from error
    except (requests.RequestException, OSError) as error:
        raise NetworkError(f"the time-stamp authority at {url} did not answer: {error}") from None
    if answer.status_code != 200:
        raise NetworkError(f"the time-stamp authority at {url} answered {answer.status_code}")
    token = b64encode(body).decode()
    _checked(text, token, roots, VerifierBuilder.from_request(asked))
    return token


def check_stamp(text: str, token: str, roots: Path | None = None) -> Stamp:
    """When ``text`` was stamped, and by whom: a certificate that was valid then and leads to one
    of ``roots`` (a PEM file; by default the roots that web servers are checked with).

    Raises ``SettingsError`` for a stamp of another text, forged, or of another authority.
    """
    from cryptography import x509

    with _library():
        from rfc3161_client import VerifierBuilder
    found = _checked(text, token, roots, VerifierBuilder())
    (signer,) = found.signed_data.signer_infos
    issued = signer.issuer, signer.serial_number
    there = map(x509.load_der_x509_certificate, found.signed_data.certificates)
    (name,) = [one.subject for one in there if (one.issuer, one.serial_number) == issued]
    return Stamp(found.tst_info.gen_time.astimezone(UTC), name.rfc4514_string())


def _checked(
    text: str, token: str, roots: Path | None, builder: VerifierBuilder
) -> TimeStampResponse:
    from cryptography import x509
    from requests.utils import DEFAULT_CA_BUNDLE_PATH
    from rfc3161_client import VerificationError, decode_timestamp_response

    known = []
    place = Path(DEFAULT_CA_BUNDLE_PATH) if roots is None else roots
    try:
        for pem in _CERTIFICATE.findall(place.read_bytes()):
            with warnings.catch_warnings(), suppress(*([ValueError] if roots is None else [])):
                warnings.simplefilter("ignore")  # some old roots of browsers break rules of today
                known.append(x509.load_pem_x509_certificate(pem))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{place} does not hold certificates (PEM): {error}") from None
    if not known:
        raise InvalidRequest(f"{place} does not hold certificates (PEM)")
    for one in known:
        add = (
            builder.add_root_certificate if one.issuer == one.subject
            else builder.add_intermediate_certificate
        )  # fmt: skip
        builder = add(one)
    try:
        found = decode_timestamp_response(b64decode(token))
        builder.build().verify_message(found, text.encode())
    except (ValueError, VerificationError) as error:
        raise SettingsError(
            f"the time stamp does not hold ({first_line(error)}): it is of another anchor, was "
            "changed, or its authority is not known here; give the certificate of the authority's "
            "root with --timestamp-ca"
        ) from None
    return found


@contextmanager
def _library() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise InvalidRequest(
            "time stamps need rfc3161-client: pip install 'fundlab[timestamp]'"
        ) from None
