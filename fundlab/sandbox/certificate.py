"""A certificate of the sandbox's own, by which a client's way over HTTPS is tried."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LASTS: Final = timedelta(days=90)
_ALWAYS: Final = ("localhost", "127.0.0.1", "::1")


def self_signed(names: Iterable[str]) -> tuple[bytes, bytes]:
    """A certificate and its key, both PEM, for this machine by every name it goes by, and for
    ``names`` (host names or addresses). Whoever trusts the certificate trusts nothing else by it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    known: list[x509.GeneralName] = []
    for name in dict.fromkeys((*_ALWAYS, socket.gethostname(), *names)):
        try:
            known.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            known.append(x509.DNSName(name))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fundlab sandbox")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    now = datetime.now(UTC)
    # It signs itself, so it is also the authority to trust: OpenSSL's strict check, which newer
    # Pythons ask for, wants that said, and both key identifiers.
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of containers differ
        .not_valid_after(now + LASTS)
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
