"""TLS of the listener: the configured certificate, or for loopback a self-signed one, and what it binds to."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_ALTERNATIVE: Mapping[str, type[x509.RFC822Name | x509.DNSName | x509.UniformResourceIdentifier]] = {
    "email": x509.RFC822Name,
    "dns": x509.DNSName,
    "uri": x509.UniformResourceIdentifier,
}
ALPN = "postgresql"
"""The protocol that TLS negotiates; a client that begins with TLS has to name it."""


@dataclass(frozen=True)
class Tls:
    """A listener's TLS; `binding`: what SCRAM-SHA-256-PLUS binds a login to (RFC 5929, tls-server-end-point)."""

    context: ssl.SSLContext
    binding: bytes | None


def tls_for(certificate: str, key: str, client_ca: str = "") -> Tls:
    """TLS 1.2 or later with a certificate and key (PEM files), or a fresh self-signed one.

    `client_ca`: a PEM file; certificates of clients that it has signed are asked for. Raises ValueError for
    files that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([ALPN])
    files = {"tls_cert": certificate, "tls_key": key}
    try:
        if certificate or key:
            for name, named in files.items():
                _readable(name, named)
            context.load_cert_chain(certificate, key, password=lambda: "")
            shown = Path(certificate).read_bytes()
        else:
            shown = _self_signed()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "self-signed.pem"
                with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode=0o600)) as file:
                    file.write(shown)
                context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        said = " and ".join(f"{name} {named}" for name, named in files.items())
        raise ValueError(f"{said} are no certificate and its key in PEM{_reason(error)}") from None
    if client_ca:
        _ask_for_certificates(context, client_ca)
    return Tls(context, _end_point(x509.load_pem_x509_certificates(shown)[0]))


def certified(certificate: bytes, field: str) -> str:
    """What a client's certificate (DER), which was verified, has in a field; empty where it has nothing, or several.

    `field`: the common name of the subject (cn), the whole subject (dn), or an alternative name: email, dns, uri.
    """
    try:
        one = x509.load_der_x509_certificate(certificate)
        values = _values(one, field)
    except (ValueError, x509.ExtensionNotFound):
        return ""
    return str(values[0]) if len(values) == 1 else ""


def _values(certificate: x509.Certificate, field: str) -> Sequence[str | bytes]:
    if field == "cn":
        return [one.value for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if field == "dn":
        return [certificate.subject.rfc4514_string()]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(_ALTERNATIVE[field])


def _readable(name: str, file: str) -> None:
    """Raises ValueError for a file that cannot be read."""
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise ValueError(f"{name} {file} cannot be read: {error.strerror}") from None


def _reason(error: OSError) -> str:
    """Why, in the library's words, where it has any."""
    reason = getattr(error, "reason", None)
    return f" ({str(reason).replace('_', ' ').lower()})" if reason else ""


def _ask_for_certificates(context: ssl.SSLContext, client_ca: str) -> None:
    _readable("tls_client_ca", client_ca)
    try:
        context.load_verify_locations(cafile=client_ca)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"tls_client_ca {client_ca} has no certificates in PEM{_reason(error)}") from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _end_point(certificate: x509.Certificate) -> bytes | None:
    """The certificate's hash, by the algorithm of its signature, SHA-256 in place of weaker ones."""
    algorithm = certificate.signature_hash_algorithm
    if algorithm is None:
        return None
    name = "sha256" if algorithm.name in ("md5", "sha1") else algorithm.name
    return hashlib.new(name, certificate.public_bytes(serialization.Encoding.DER)).digest()


def _self_signed() -> bytes:
    """A key and a certificate for localhost: it encrypts, but proves no identity."""
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
