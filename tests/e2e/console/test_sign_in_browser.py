"""Signing in to the console by OpenID Connect: a real Chromium, and a certified identity provider."""

import urllib.parse

import identity_provider
import pytest
from browser import DESK, PHONE, Browser, axe_text
from conftest import FLAGS
from server import Server, free_port

pytestmark = pytest.mark.skipif(bool(identity_provider.missing()), reason=identity_provider.missing() or "-")
RESOURCE = "resource=https://tarry.example"
SCOPE = "scope=openid%20push%20read%20admin"


class Place:
    """A server that trusts a provider, and a browser in front of it."""

    def __init__(self, tmp_path, parameters=f"{SCOPE}&{RESOURCE}", audience="tarry", token="access"):
        self.directory, self.port, self.provider_port = tmp_path, free_port(), free_port()
        issuer = f"http://localhost:{self.provider_port}"
        self.flags = [*FLAGS, "--jwt-issuer", issuer, "--jwt-audience", audience, "--jwt-keys", f"{issuer}/jwks", "--oidc-client", "console",
                      "--oidc-token", token, "--oidc-parameters", parameters, "--log-level", "debug"]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.providing = identity_provider.providing(f"{self.url}/console/", self.provider_port)
        self.provider = self.providing.__enter__()
        self.server = Server(self.directory / "server", self.flags).start(self.port)
        self.browser = Browser(self.directory, self.url)
        return self

    def __exit__(self, *_):
        self.browser.close()
        self.providing.__exit__(None, None, None)
        assert self.server.terminate() == 0 and not self.server.sanitizer_report()

    def begin(self, page="#/topics"):
        """Opens a page, and follows its button to the provider."""
        self.browser.driver.get("about:blank")
        self.browser.driver.get(f"{self.url}/console/{page}")
        self.browser.press("Log in with localhost*", self.browser.dialog)
        self.browser.wait(lambda: self.browser.all("input[name=login]"), "the provider's page")

    def prove(self, name="ann"):
        """Enters a name at the provider and consents; any password will do there."""
        self.browser.find("input[name=login]").send_keys(name)
        self.browser.find("input[name=password]").send_keys("x")
        self.browser.find("button[type=submit]").click()
        self.browser.wait(lambda: "consent" in self.browser.driver.page_source.lower() and self.browser.all("button[type=submit]"), "the consent")
        self.browser.find("button[type=submit]").click()
        self.browser.wait(lambda: self.browser.driver.current_url.startswith(self.url), "the console again")

    def stored(self):
        return self.browser.script("return {...sessionStorage}")

    def secrets(self):
        """Every token that the browser has."""
        kept = self.browser.script("return JSON.parse(sessionStorage.getItem('tarry-signed-in'))")
        return [kept[name] for name in ("token", "id", "refresh") if kept.get(name)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with Place(tmp_path_factory.mktemp("sign-in"), f"{SCOPE}%20offline_access&prompt=consent&{RESOURCE}") as made:
        yield made


@pytest.fixture(autouse=True)
def fresh(request):
    yield
    if "place" in request.fixturenames:
        made = request.getfixturevalue("place")
        made.provider.tell(seconds=600)
        for where in (made.provider.issuer, made.url + "/console/"):
            made.browser.driver.get(where)
            made.browser.script("sessionStorage.clear()")
            made.browser.driver.delete_all_cookies()


def test_a_user_logs_in_returns_to_the_page_and_logs_out(place):
    browser = place.browser
    place.begin("#/topics")
    place.prove()
    browser.sees("New topic")
    browser.wait(lambda: browser.driver.current_url == f"{place.url}/console/#/topics", "the page that the user wanted, without the code")
    browser.sees("ann")
    secrets = place.secrets()
    assert len(secrets) == 3 and browser.driver.get_cookies() == []
    assert not any(secret in browser.script("return JSON.stringify(localStorage) + location.href + document.documentElement.outerHTML") for secret in secrets)
    assert not any(secret in place.server.log() for secret in secrets), "no token is in the log"
    browser.driver.refresh()
    browser.sees("ann")
    browser.unharmed()
    browser.press("Log out")
    browser.wait(lambda: browser.driver.current_url.startswith(place.provider.issuer), "the end of the session at the provider")
    assert "id_token_hint" in browser.driver.current_url
    browser.press("Yes, sign me out")
    browser.wait(lambda: browser.driver.current_url.startswith(place.url), "the console again")
    browser.sees("Log in with your identity provider")
    assert not place.stored() and place.provider.count("end_session.success") == 1


def test_a_pasted_token_of_the_provider_lets_its_user_in(place):
    browser = place.browser
    place.begin()
    place.prove("quentin")
    browser.sees("quentin")
    token = place.secrets()[0]
    browser.script("sessionStorage.clear()")
    browser.driver.get("about:blank")
    browser.open("#/topics")
    browser.sees("Log in with your identity provider")
    browser.script("document.querySelector('#token').focus()")
    browser.command("Input.insertText", text=token)
    browser.press("Log in", browser.dialog)
    browser.sees("quentin")
    assert "tarry-signed-in" not in place.stored()


def test_the_request_has_pkce_and_only_its_own_values(place):
    browser = place.browser
    place.begin()
    pending = browser.requests()
    asked = [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)) for url in pending if "/auth?" in url][-1]
    assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43
    assert len(asked["state"]) == len(asked["nonce"]) == 43 and asked["state"] != asked["nonce"]
    assert asked["redirect_uri"] == f"{place.url}/console/" and asked["resource"] == "https://tarry.example"
    assert "code_verifier" not in asked and "client_secret" not in asked


def test_a_token_is_renewed_before_it_ends_and_an_ended_login_is_reported(place):
    browser = place.browser
    place.provider.tell(seconds=32)
    place.begin()
    place.prove("bob")
    browser.sees("bob")
    first = place.secrets()[0]
    browser.wait(lambda: browser.press("Refresh") or place.provider.count("grant.success", grant="refresh_token"), "a renewal")
    browser.wait(lambda: place.secrets()[0] != first, "the new token")
    browser.sees("bob")
    # The provider forgets the grant, and the server sees a token that has ended.
    browser.script("const kept = JSON.parse(sessionStorage.getItem('tarry-signed-in')); kept.refresh = 'gone'; kept.token = kept.token.slice(0, -4) + 'AAAA'; kept.ends = 0;"
                   "sessionStorage.setItem('tarry-signed-in', JSON.stringify(kept))")
    browser.driver.refresh()
    browser.sees("Your log-in has ended. Log in again.")
    assert "tarry-signed-in" not in place.stored()


def test_wrong_answers_are_refused_in_plain_words(place):
    browser = place.browser
    state = None

    def come_back(**query):
        nonlocal state
        browser.driver.get("about:blank")
        browser.driver.get(f"{place.url}/console/")
        browser.press("Log in with localhost*", browser.dialog)
        browser.wait(lambda: browser.all("input[name=login]"), "the provider's page")
        asked = [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query)) for url in browser.requests() if "/auth?" in url][-1]
        state = asked["state"]
        query = {name: state if value == "STATE" else value for name, value in query.items()}
        before = place.provider.count("grant.error")
        browser.driver.get(f"{place.url}/console/?{urllib.parse.urlencode(query)}")
        browser.sees("The log-in failed")
        assert "?" not in browser.driver.current_url and not place.stored()
        return browser.text(), place.provider.count("grant.error") - before

    issuer = place.provider.issuer
    for query, words, tried in (
        ({"code": "x", "state": "another"}, "This tab did not begin this log-in", 0),
        ({"code": "x"}, "This tab did not begin this log-in", 0),
        ({"code": "x", "state": "STATE", "iss": "https://evil.example"}, f"The answer is not from {issuer}", 0),
        ({"code": "x", "state": "STATE", "iss": issuer}, "ended the log-in with an error", 1),
        ({"error": "access_denied", "error_description": "End-User aborted <b>it</b>", "state": "STATE", "iss": issuer}, "did not let you in: End-User aborted <b>it</b>", 0),
        ({"error": "login_required", "state": "STATE", "iss": issuer}, "login_required", 0),
    ):
        text, count = come_back(**query)
        assert words in text and count == tried, (query, text)
    browser.unharmed()


def test_a_code_works_once(place):
    browser = place.browser
    place.begin()
    place.prove("eve")
    browser.sees("eve")
    back = [url for url in browser.requests() if url.startswith(f"{place.url}/console/?code=")][-1]
    browser.driver.get("about:blank")
    browser.driver.get(back)
    browser.sees("This tab did not begin this log-in")
    assert place.provider.events[-1]["event"] != "grant.error", "the code did not leave the page again"


def test_a_token_in_the_address_is_not_used(place):
    browser = place.browser
    browser.driver.get("about:blank")
    browser.driver.get(f"{place.url}/console/#access_token=a.b.c&id_token=a.b.c&token_type=Bearer")
    browser.sees("Page not found")
    browser.open("#/topics")
    browser.sees("Log in with your identity provider")
    assert not place.stored() and "a.b.c" not in place.server.log()
    browser.size(PHONE)
    assert browser.axe(axe_text()) == [], "the dialog, on a phone"
    assert browser.script("return document.querySelector('dialog').scrollWidth <= document.documentElement.clientWidth")
    browser.size(DESK)


def test_forged_answers_of_the_provider_are_refused(place):
    browser = place.browser
    for path, change, words in (("/.well-known/openid-configuration", {"issuer": "https://evil.example"}, "The answer is not from"),
                                ("/.well-known/openid-configuration", {"token_endpoint": "https://evil.example/token"}, "token_endpoint” of"),
                                ("/.well-known/openid-configuration", {"code_challenge_methods_supported": ["plain"]}, "does not support PKCE")):
        place.provider.tell(forge={path: change})
        browser.driver.get("about:blank")
        browser.driver.get(f"{place.url}/console/")
        browser.press("Log in with localhost*", browser.dialog)
        browser.sees(words)
        assert not place.stored() and browser.driver.current_url.startswith(place.url)
        place.provider.tell(forge={path: None})
    place.provider.tell(forge={"/token": {"id_token": "e30.e30.e30"}})
    place.begin()
    place.prove("mallory")
    browser.sees("is not for this log-in")
    assert not place.stored()
    place.provider.tell(forge={"/token": None})


def test_an_id_token_serves_if_the_operator_chose_it_and_is_then_never_in_an_address(tmp_path):
    with Place(tmp_path, "scope=openid", "console", "id") as place:
        place.begin()
        place.prove("ida")
        place.browser.sees("ida")
        place.browser.press("Log out")
        place.browser.wait(lambda: place.browser.driver.current_url.startswith(place.provider.issuer), "the provider")
        assert "id_token_hint" not in place.browser.driver.current_url


@pytest.mark.parametrize(("parameters", "words"), [("scope=openid", "is not a JWT, so the server cannot check it"), (f"{SCOPE}&resource=https://other.example", "this server does not accept the token")])
def test_a_token_that_the_server_cannot_use_is_explained(tmp_path, parameters, words):
    with Place(tmp_path, parameters) as place:
        place.begin()
        place.prove()
        place.browser.sees(words)
        assert "tarry-signed-in" not in place.stored()
