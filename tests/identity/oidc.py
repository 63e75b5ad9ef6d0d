"""A real OpenID provider (oidc-provider of npm) as a process, and a person who logs in to it in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

NODE = Path(__file__).parent / "node"
_DONE = "http://127.0.0.1:9/done"
_VERIFIER = "v" * 43


@contextmanager
def provider(port: int, key: str) -> Iterator[str]:
    """The provider's issuer, which signs by a new key of this name."""
    process = subprocess.Popen(["node", "provider.js", str(port), key], cwd=NODE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close() if process.stdout else None


def id_token(issuer: str, person: str) -> str:
    """What the provider says of a person who logs in and consents (authorization code with PKCE)."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(_VERIFIER.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "client_id": "dpproxy",
        "response_type": "code",
        "redirect_uri": _DONE,
        "scope": "openid email groups",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    with httpx.Client(base_url=issuer) as browser:
        page = browser.get("/auth", params=asked)
        while not page.headers.get("location", "").startswith(_DONE):
            if page.has_redirect_location:
                page = browser.get(page.headers["location"])
                continue
            form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', page.text))
            (action,) = re.findall(r'<form[^>]* action="([^"]+)"', page.text)
            page = browser.post(action, data={**form, "login": person, "password": "any"})
        (code,) = parse_qs(urlsplit(page.headers["location"]).query)["code"]
        sent = {"client_id": "dpproxy", "grant_type": "authorization_code", "redirect_uri": _DONE}
        answer = browser.post("/token", data={**sent, "code": code, "code_verifier": _VERIFIER})
        return str(answer.raise_for_status().json()["id_token"])
