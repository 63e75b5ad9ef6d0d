"""TLS of the listener: the configured certificate, or for loopback a self-signed one."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 or later with a certificate and key (PEM files), or a fresh self-signed one.

    Raises ValueError for files that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if certificate or key:
            context.load_cert_chain(certificate, key, password=lambda: "")
            return context
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "self-signed.pem"
            with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode=0o600)) as file:
                file.write(_self_signed())
            context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"tls_cert and tls_key cannot be used: {error.strerror or error}") from None
    return context


def _self_signed() -> bytes:
    """A key and a certificate for localhost: it hides what is said, it proves nothing."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=3650))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
