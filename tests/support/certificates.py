"""Certificates for servers in tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path, *addresses: str, expired: bool = False) -> tuple[Path, Path]:
    """Return files of a certificate for localhost, 127.0.0.1 and ``addresses``, and of its key.

    One that has expired did so a day ago.
    """
    key, certificate = folder / "key.pem", folder / "cert.pem"
    names = ["DNS:localhost", *(f"IP:{one}" for one in ("127.0.0.1", *addresses))]
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key),
             "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost",
             "-addext", f"subjectAltName={','.join(names)}"],
            check=True, capture_output=True,
        )  # fmt: skip
        if expired:
            subprocess.run(
                ["openssl", "x509", "-in", str(certificate), "-signkey", str(key), "-days", "-1",
                 "-out", str(certificate)],
                check=True, capture_output=True,
            )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate: install it")
    return certificate, key
