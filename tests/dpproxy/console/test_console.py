"""The owner's console as a browser's adversary sees it: logins, cookies, tokens, headers, escaping; and monitoring."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dpproxy.console.app import PAGES
from dpproxy.console.guard import HEADERS
from dpproxy.server.login_throttle import FREE_FAILURES, SPACING_SECONDS
from tests.conftest import missing
from tests.deploy.monitoring import expressions, unknown
from tests.dpproxy.certificates import Authority
from tests.dpproxy.console_world import ANALYSTS, EVIL, PASSWORD, ask, make_world
from tests.dpproxy.serving import ROOT, Running, command, serving, within
from tests.spark_server import free_port

pytestmark = pytest.mark.service

LOGIN = {"password": PASSWORD}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(tmp_path_factory.mktemp("console"))


@pytest.fixture(scope="module")
def run(file: Path) -> Iterator[Running]:
    with serving(["serve", "-c", str(file), "--port", "0", "--http", "127.0.0.1:0"]) as running:
        ask(running)
        yield running


@pytest.fixture
def browser(run: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=run.console) as client:
        yield client


def tags(page: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every tag of a page with its attributes."""
    found: list[tuple[str, list[tuple[str, str]]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, [(name, value or "") for name, value in attrs]))

    Reader().feed(page)
    return found


def token_of(page: httpx.Response) -> str:
    found = re.search(r'name="token" value="([0-9a-f]{64})"', page.text)
    assert found
    return found[1]


def log_in(browser: httpx.Client, password: str = PASSWORD, user: str = "owner") -> httpx.Response:
    token = token_of(browser.get("/login"))
    return browser.post("/login", data={"token": token, "user": user, "password": password})


@pytest.fixture
def owner(browser: httpx.Client) -> httpx.Client:
    assert log_in(browser).status_code == 303
    return browser


def test_nothing_is_shown_to_who_has_not_logged_in(browser: httpx.Client) -> None:
    for path in PAGES:
        page = browser.get(path)
        assert (page.status_code, page.headers["location"]) == (303, "/login")
        assert not any(name in page.text for name in ANALYSTS)
    assert browser.get("/metrics").status_code == 401


def test_a_login_needs_the_password_and_a_form_of_its_own(browser: httpx.Client) -> None:
    assert browser.post("/login", data=LOGIN).status_code == 403
    browser.get("/login")
    assert browser.post("/login", data={**LOGIN, "token": "0" * 64}).status_code == 403
    with httpx.Client(base_url=browser.base_url) as other:
        elsewhere = token_of(other.get("/login"))
    assert browser.post("/login", data={**LOGIN, "token": elsewhere}).status_code == 403
    assert log_in(browser, "wrong horse battery").status_code == 403
    assert browser.get("/").status_code == 303
    big = {**LOGIN, "token": token_of(browser.get("/login")), "more": "x" * 5000}
    assert browser.post("/login", data=big).status_code == 403
    assert log_in(browser).headers["location"] == "/"
    assert browser.get("/").status_code == 200


def test_a_login_gives_a_new_cookie_that_scripts_and_other_sites_cannot_use(browser: httpx.Client) -> None:
    before = browser.get("/login").cookies["dpproxy_owner"]
    answer = log_in(browser)
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert answer.cookies["dpproxy_owner"] != before


def test_a_cookie_that_was_changed_is_none(owner: httpx.Client, run: Running) -> None:
    cookie = owner.cookies["dpproxy_owner"]
    visitor = httpx.get(f"{run.console}login").cookies["dpproxy_owner"]
    id, _, expires, signature = visitor.split(".")
    for forged in (
        f"{id}.1.{expires}.{signature}",
        f"{id}.owner.{expires}.{signature}",
        f"{id}.auditor.{expires}.{signature}",
        cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
        "",
        "...",
        "ü",
    ):
        page = httpx.get(run.console, headers={b"Cookie": f"dpproxy_owner={forged}".encode()})
        assert page.status_code == 303, forged
    assert httpx.get(run.console, headers={"Cookie": f"dpproxy_owner={cookie}"}).status_code == 200


def test_logging_out_ends_the_cookie_itself(owner: httpx.Client, run: Running) -> None:
    cookie, token = owner.cookies["dpproxy_owner"], token_of(owner.get("/"))
    assert owner.post("/logout", data={"token": "0" * 64}).status_code == 403
    assert owner.get("/").status_code == 200
    assert owner.post("/logout", data={"token": token}).status_code == 303
    assert httpx.get(run.console, headers={"Cookie": f"dpproxy_owner={cookie}"}).status_code == 303


def test_every_response_has_the_headers(owner: httpx.Client) -> None:
    for path in (*PAGES, "/login", "/static/console.css", "/healthz", "/readyz", "/metrics", "/nothing"):
        page = owner.get(path)
        assert {name: page.headers.get(name) for name in HEADERS} == dict(HEADERS), path
        assert "server" not in page.headers
    assert "script-src" not in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_other_names_are_not_answered_to(run: Running) -> None:
    for host, status in (("evil.example", 421), ("localhost:1", 200), ("[::1]:6480", 200), ("", 421)):
        assert httpx.get(f"{run.console}healthz", headers={"Host": host}).status_code == status, host


def test_names_are_text_and_nothing_is_run_or_fetched(owner: httpx.Client) -> None:
    for path in PAGES:
        page = owner.get(path)
        assert page.status_code == 200, path
        assert EVIL not in page.text
        assert "<img src=x" not in page.text
        for tag, attributes in tags(page.text):
            assert tag not in ("script", "style", "iframe", "object"), path
            for name, value in attributes:
                assert not name.startswith("on"), path
                assert name != "style", path
                assert name not in ("src", "href", "action") or value[:1] in ("/", "#"), (path, value)
    assert "&lt;script&gt;alert(1)" in owner.get("/").text
    assert "&lt;img src=x" in owner.get("/columns").text


def test_pages_tell_what_happened(owner: httpx.Client) -> None:
    accounts = owner.get("/").text
    assert "analyst:ann" in accounts
    assert "<strong>99</strong> of 100 left" in accounts
    assert "1 spent so far" in accounts
    releases = owner.get("/releases").text
    assert re.search(r"analyst:ann</td>\s*<td[^>]*>1</td>\s*<td[^>]*>1</td>", releases)
    asked = owner.get("/releases", params={"account": "analyst:ann"}).text
    assert "COUNT(*) of people by town" in asked
    assert asked == owner.get("/releases", params={"account": "ann"}).text
    assert "Asked, the latest first" not in releases
    assert "analyst:ann" not in owner.get("/releases", params={"account": "team:x"}).text.split("<figure")[1]
    refused = eventually(owner, "/refusals", "PV010")
    assert "rows of a private table" in refused
    assert re.search(r"<td[^>]*>[0-9a-f]{16}</td>\s*<td[^>]*>PV010</td>", refused)
    assert "select * from people" not in refused
    tried = owner.get("/limits", params={"information": "0.5, 50", "calls": "x"}).text
    assert "2 of 2" in tried
    assert 'aria-invalid="true"' in tried
    assert "known: 3 values" in owner.get("/columns").text
    assert "all 2 analysts together" in owner.get("/guarantee").text
    assert owner.get("/health").text.count("reachable</span>") == 4


def test_no_page_has_a_value_of_the_data(owner: httpx.Client) -> None:
    for path in PAGES:
        shown = re.sub(r"<[^>]*>", " ", owner.get(path).text)
        assert not re.search(r"\b[39]00\b|Ulm|Bonn|Jena", shown), path


def eventually(owner: httpx.Client, path: str, text: str) -> str:
    """The page, once it says so: refusals are written every few seconds."""
    with httpx.Client(base_url=owner.base_url, cookies=owner.cookies, timeout=30) as client:
        ends_at = time.monotonic() + 60
        while time.monotonic() < ends_at:
            page = client.get(path).text
            if text in page:
                return page
            time.sleep(0.2)
    raise AssertionError(f"{path} does not say {text}")


def test_monitoring_reads_with_its_token(run: Running, file: Path) -> None:
    token = within("console", "token", "-c", str(file))[1].strip()
    assert re.fullmatch("[0-9a-f]{64}", token)
    page = httpx.get(f"{run.console}metrics", headers={"Authorization": f"Bearer {token}"})
    assert page.status_code == 200
    for line in (
        'dpproxy_answers_total{paid="bought"} 2.0',
        'dpproxy_answers_total{paid="replayed"} 2.0',
        'dpproxy_refusals_total{code="PV010"} 2.0',
        'dpproxy_charged_units_total{unit="information"} 2.0',
        "dpproxy_sessions 0.0",
        "dpproxy_backend_slots 4.0",
        'dpproxy_stage_seconds_count{stage="fetch"} 1.0',
    ):
        assert line in page.text.splitlines(), line
    assert not any(name in page.text for name in (*ANALYSTS, "Ulm", "people"))
    wrong = httpx.get(f"{run.console}metrics", headers={"Authorization": f"Bearer {token[:-1]}"})
    assert wrong.status_code == 401
    # The dashboard and the alerts of deploy/ name nothing else.
    asked = [(expression, shown) for expression, shown in expressions() if "dpproxy_" in expression]
    assert {one: missed for one, shown in asked if (missed := unknown(one, shown, page.text))} == {}
    assert len(asked) > 15


@pytest.mark.client
def test_prometheus_reads_it_as_the_page_says_and_answers_dashboard_and_alerts(
    run: Running, file: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "console.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    target = urlsplit(run.console).netloc
    token = within("console", "token", "-c", str(file))[1].strip()
    wanted = page.replace("TOKEN", token).replace("127.0.0.1:6480", target)
    config = tmp_path / "prometheus.yml"
    config.write_text(f"global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n{wanted}")
    with prometheus(config) as client:

        def found(expression: str) -> list[object]:
            for variable, value in (("$__rate_interval", "10s"), ("$instance", ".*")):
                expression = expression.replace(variable, value)
            answer = client.get("/api/v1/query", params={"query": expression}).json()
            assert answer["status"] == "success", (expression, answer)
            return list(answer["data"]["result"])

        # Without their thresholds: nothing is wrong here, so that no alert fires.
        asked = [
            re.sub(r" (?:>|==) [\d.]+", "", one) for one, _ in expressions() if "label_values" not in one
        ]
        asked.append('up{job="dpproxy"} == 1')
        # On a busy machine a scrape may come too late, and a rate needs two of them.
        ends_at = time.monotonic() + 60
        while (unanswered := [one for one in asked if not found(one)]) and time.monotonic() < ends_at:
            time.sleep(0.2)
        assert unanswered == []


@contextmanager
def prometheus(config: Path) -> Iterator[httpx.Client]:
    """Prometheus with a configuration, once it answers; Debian's package is of this name."""
    program = shutil.which("prometheus")
    if program is None:
        missing("prometheus")
    address = f"127.0.0.1:{free_port()}"
    places = (f"--config.file={config}", f"--storage.tsdb.path={config.parent}/series")
    with (
        subprocess.Popen(
            [program, *places, f"--web.listen-address={address}", "--log.level=error"],
        ) as running,
        httpx.Client(base_url=f"http://{address}") as client,
    ):
        try:
            for _ in range(100):
                with suppress(httpx.TransportError):
                    if client.get("/-/ready").status_code == 200:
                        break
                time.sleep(0.1)
            yield client
        finally:
            running.terminate()


def test_health_needs_no_login_and_tells_no_names(run: Running) -> None:
    assert httpx.get(f"{run.console}healthz").text == "alive\n"
    ready = httpx.get(f"{run.console}readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"server": True, "ledger": True, "front": True, "backend": True},
    )


def test_the_password_is_kept_as_a_verifier_and_a_new_one_ends_logins(
    owner: httpx.Client, run: Running, file: Path
) -> None:
    place = file.parent / ".dpproxy" / "key.owner"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert PASSWORD not in place.read_text()
    assert place.read_text().startswith("scrypt$32768$8$1$")
    set_password = ("console", "password", "--password-stdin", "-c", str(file))
    status, _, errors = within(*set_password, entry="short\n")
    assert (status, errors.count("\n")) == (1, 1)
    assert owner.get("/").status_code == 200
    assert within(*set_password, entry=f"{PASSWORD}\n")[0] == 0
    assert owner.get("/").status_code == 303


def test_an_auditor_sees_the_pages_and_no_metrics(owner: httpx.Client, run: Running, file: Path) -> None:
    assert "<select" not in owner.get("/login", follow_redirects=True).text
    set_password = ("console", "password", "--auditor", "--password-stdin", "-c", str(file))
    with httpx.Client(base_url=run.console) as auditor:
        assert log_in(auditor, "looks at it all", "auditor").status_code == 403
        assert within(*set_password, entry="looks at it all\n")[0] == 0
        assert "<option>auditor</option>" in auditor.get("/login").text
        assert log_in(auditor, PASSWORD, "auditor").status_code == 403
        assert log_in(auditor, "looks at it all", "owner").status_code == 403
        assert log_in(auditor, "looks at it all", "auditor").status_code == 303
        assert [auditor.get(path).status_code for path in PAGES] == [200] * len(PAGES)
        assert "Read the configuration again" not in (health := auditor.get("/health")).text
        assert auditor.post("/reload", data={"token": token_of(health)}).status_code == 403
        assert (auditor.get("/metrics").status_code, owner.get("/metrics").status_code) == (401, 200)
        # Another password of one role ends the logins of that role alone.
        assert within(*set_password, entry="looks at it again\n")[0] == 0
        assert (auditor.get("/").status_code, owner.get("/").status_code) == (303, 200)


def test_the_owner_has_the_configuration_read_again(owner: httpx.Client, run: Running, file: Path) -> None:
    assert owner.post("/reload", data={"token": "0" * 64}).status_code == 403
    assert httpx.post(f"{run.console}reload", data={"token": "0" * 64}).status_code == 403
    before, token = file.read_text(), token_of(owner.get("/health"))
    assert "information = 100\n" in before
    file.write_text(before.replace("information = 100\n", "information = -100\n"))
    refused = owner.post("/reload", data={"token": token})
    assert refused.status_code == 409
    assert "Nothing has changed." in refused.text
    assert "budget.information" in refused.text
    file.write_text(before.replace("calls = 3\n", "calls = 7\n"))
    assert "The policy of the file is in force." in owner.post("/reload", data={"token": token}).text
    assert re.search(r"\b7\b", owner.get("/limits").text)
    file.write_text(before)
    assert owner.post("/reload", data={"token": token}).status_code == 200
    ask(run)


def test_wrong_passwords_become_slow(run: Running) -> None:
    with httpx.Client(base_url=run.console, timeout=30) as browser:
        token = token_of(browser.get("/login"))
        began = time.monotonic()
        for _ in range(FREE_FAILURES + 2):
            answer = browser.post("/login", data={"token": token, "password": "wrong horse battery"})
            assert answer.status_code == 403
        assert time.monotonic() - began > 2 * SPACING_SECONDS - 0.2


UNFINISHED = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken="


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", UNFINISHED])
def test_unfinished_requests_shut_nobody_out(run: Running, sent: bytes) -> None:
    """From the owner's own address, and from others: as many as once filled the console."""
    port = urlsplit(run.console).port
    with ExitStack() as stack:
        for number in range(160):
            address = f"127.0.0.{1 + number % 2 * (number % 5)}"
            crowd = socket.create_connection(("127.0.0.1", port), 30, (address, 0))
            stack.enter_context(crowd).sendall(sent)
        for path in ("healthz", "readyz"):
            assert httpx.get(f"{run.console}{path}", timeout=30).status_code == 200
        with httpx.Client(base_url=run.console, timeout=30) as browser:
            assert log_in(browser).status_code == 303
            assert browser.get("/").status_code == 200


def test_guessers_elsewhere_do_not_lock_the_owner_out(run: Running) -> None:
    """Twenty addresses that guess without a pause: their attempts wait for one another, not the owner for them."""
    statuses: Counter[int] = Counter()
    over, begun = threading.Event(), threading.Semaphore(0)

    def guess(number: int) -> None:
        transport = httpx.HTTPTransport(local_address=f"127.0.0.{number}")
        with httpx.Client(base_url=run.console, transport=transport, timeout=60) as guesser:
            token = token_of(guesser.get("/login"))
            while not over.is_set():
                sent = guesser.post("/login", data={"token": token, "password": "wrong horse battery"})
                statuses[sent.status_code] += 1
                begun.release()

    with ThreadPoolExecutor(20) as guessers:
        running = [guessers.submit(guess, number) for number in range(2, 22)]
        try:
            for _ in range(5):
                assert begun.acquire(timeout=60)
            for _ in range(2):
                with httpx.Client(base_url=run.console, timeout=60) as browser:
                    assert log_in(browser).status_code == 303
        finally:
            over.set()
    for guesser in running:
        guesser.result()
    assert statuses[303] == 0
    assert statuses[403] >= 5


def test_guesses_at_once_of_one_address_count_each(run: Running) -> None:
    """What is beyond the free ones is computed a second after what came before it."""
    transport = httpx.HTTPTransport(local_address="127.0.0.40")
    with httpx.Client(base_url=run.console, transport=transport, timeout=60) as browser:
        token = token_of(browser.get("/login"))

        def guess(_: int) -> int:
            return browser.post("/login", data={"token": token, "password": "wrong horse"}).status_code

        begun = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(guess, range(FREE_FAILURES + 2))) == {403}
        assert time.monotonic() - begun > SPACING_SECONDS


def test_the_port_that_is_taken_is_told(file: Path, run: Running) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        done = command("console", "-c", str(file), "--http", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1" in done.stderr
    status, _, errors = within("console", "-c", str(file), "--http", "0.0.0.0:6480")
    assert status == 1
    assert "not loopback: set tls_cert and tls_key" in errors


def test_with_a_certificate_it_speaks_tls_alone(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    pem = authority.sign("localhost")
    file = make_world(tmp_path)
    cert = f'[server]\ntls_cert = "{pem.certificate}"\ntls_key = "{pem.key}"\n'
    file.write_text(file.read_text().replace("[server]\n", cert, 1))
    context = ssl.create_default_context(cafile=authority.certificate)
    with serving(["serve", "-c", str(file), "--port", "0", "--http", "127.0.0.1:0"]) as run:
        assert run.console.startswith("https://127.0.0.1:")
        with httpx.Client(base_url=run.console, verify=context, headers={"Host": "owner.example"}) as browser:
            page = browser.get("/login")
            assert page.status_code == 200
            assert page.headers["strict-transport-security"] == "max-age=31536000"
            assert "; secure" in page.headers["set-cookie"].lower()
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(run.console.replace("https", "http"))


def test_readiness_follows_the_backend(run: Running, file: Path) -> None:
    def status_becomes(wanted: int) -> httpx.Response:
        for _ in range(60):
            ready = httpx.get(f"{run.console}readyz", timeout=60)
            if ready.status_code == wanted:
                return ready
            time.sleep(0.5)
        raise AssertionError(f"/readyz never has status {wanted}")

    database = file.parent / "people.duckdb"
    database.rename(database.with_suffix(".away"))
    try:
        assert status_becomes(503).json() == {"server": True, "ledger": True, "front": True, "backend": False}
        assert httpx.get(f"{run.console}healthz").status_code == 200
        with httpx.Client(base_url=run.console, timeout=60) as browser:
            assert log_in(browser).status_code == 303
            page = browser.get("/health").text
            assert "Not all parts can be reached" in page
            assert "BackendUnavailable" in page
    finally:
        database.with_suffix(".away").rename(database)
    status_becomes(200)
