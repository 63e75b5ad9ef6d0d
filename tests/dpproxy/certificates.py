"""Certificates for the tests of TLS: an authority, and what it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Algorithm = hashes.SHA256 | hashes.SHA384 | hashes.SHA512


@dataclass(frozen=True)
class Pem:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority in a folder of its own."""

    folder: Path
    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, folder: Path) -> Authority:
        """A new one."""
        folder.mkdir()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
        authority = cls(folder, name, ec.generate_private_key(ec.SECP256R1()))
        authority._write("ca", authority.key, name, hashes.SHA256(), ca=True)
        return authority

    @property
    def certificate(self) -> Path:
        """Its own certificate."""
        return self.folder / "ca.pem"

    def sign(
        self,
        name: str,
        *,
        algorithm: Algorithm | None = None,
        twice: bool = False,
        emails: Sequence[str] = (),
    ) -> Pem:
        """A certificate for a common name; `twice`: which it has two times; `emails`: alternative names."""
        names = [x509.NameAttribute(NameOID.COMMON_NAME, name)] * (2 if twice else 1)
        key = ec.generate_private_key(ec.SECP256R1())
        return self._write(name, key, x509.Name(names), algorithm or hashes.SHA256(), emails)

    def _write(
        self,
        file: str,
        key: ec.EllipticCurvePrivateKey,
        subject: x509.Name,
        algorithm: Algorithm,
        emails: Sequence[str] = (),
        *,
        ca: bool = False,
    ) -> Pem:
        now = dt.datetime.now(dt.UTC)
        names: list[x509.GeneralName] = [x509.RFC822Name(email) for email in emails]
        names += [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self.key, algorithm)
        )
        pem = Pem(self.folder / f"{file}.pem", self.folder / f"{file}.key")
        pem.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pem.key.touch(mode=0o600)
        pem.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pem
