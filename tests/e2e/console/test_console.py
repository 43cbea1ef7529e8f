"""The web console as it is served: its files and no other, with the fields that fence it in, small, and its words whole in both languages."""

import gzip
import re

import pytest
import yaml
from issuer import Issuer
from server import REPO

FILES = sorted(path.name for path in (REPO / "console").iterdir())
FIRST_VIEW_BYTES_MAX = 100_000
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from conftest import FLAGS
    from server import Server

    server = Server(tmp_path_factory.mktemp("console"), FLAGS).start()
    yield server.client()
    assert server.terminate() == 0 and not server.sanitizer_report()


def get(client, name, **headers):
    return client.call("GET", f"/console/{name}", b"", {key.replace("_", "-"): value for key, value in headers.items()})


def test_serves_each_file_plain_and_compressed(client):
    assert "index.html" in FILES and "main.js" in FILES
    for name in FILES:
        plain, packed = get(client, name), client.call("GET", f"/console/{name}", b"", GZIP)
        assert plain.status == packed.status == 200
        assert plain.body == (REPO / "console" / name).read_bytes() == gzip.decompress(packed.body)
        assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
        assert plain.headers["content-type"] == packed.headers["content-type"] == TYPES[name.rpartition(".")[2]]
        assert plain.headers["etag"] != packed.headers["etag"]
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"


def test_the_folder_is_the_page(client):
    assert get(client, "").body == get(client, "index.html").body
    moved = client.call("GET", "/console")
    assert (moved.status, moved.headers["location"]) == (308, "console/")


def test_the_content_policy_allows_only_necessary_sources(client):
    for name in ("", *FILES):
        fields = get(client, name).headers
        policy = dict(rule.strip().partition(" ")[::2] for rule in fields["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and "unsafe" not in str(policy) and "http" not in str(policy)
        assert {policy[rule] for rule in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert {policy[rule] for rule in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
        assert policy["require-trusted-types-for"] == "'script'" and policy["trusted-types"] == "'none'"
        assert fields["x-content-type-options"] == "nosniff" and fields["referrer-policy"] == "no-referrer"
        assert fields["cache-control"] == "no-cache" and "set-cookie" not in fields


def test_a_log_in_is_announced_and_its_issuer_is_the_only_further_origin(tmp_path, start_server):
    (tmp_path / "keys.pem").write_bytes(Issuer(tmp_path / "issuer").key("EdDSA").pem)
    server = start_server("--jwt-issuer", "https://id.example/realms/one", "--jwt-audience", "tarry", "--jwt-keys", str(tmp_path / "keys.pem"),
                          "--oidc-client", "console", "--oidc-parameters", "scope=openid%20profile")
    answer = server.client().call("GET", "/v1/sign-in")
    assert answer.json() == {"issuer": "https://id.example/realms/one", "client_id": "console", "parameters": "scope=openid%20profile", "token": "access"}
    page = server.client().call("GET", "/console/?code=secret&state=x")
    assert page.status == 200 and "connect-src 'self' https://id.example:443; base-uri" in page.headers["content-security-policy"]
    again = server.client().call("GET", "/console/", headers={"If-None-Match": page.headers["etag"]})
    assert again.status == 304 and again.headers["content-security-policy"] == page.headers["content-security-policy"]
    assert "secret" not in server.log()


def test_without_a_log_in_nothing_is_announced(client):
    assert client.call("GET", "/v1/sign-in").json() == {"issuer": None, "client_id": None, "parameters": "", "token": "access"}


def test_cached_files_are_not_sent_again(client):
    for coding in ({}, GZIP):
        first = client.call("GET", "/console/main.js", b"", coding)
        again = client.call("GET", "/console/main.js", b"", {**coding, "If-None-Match": first.headers["etag"]})
        assert again.status == 304 and not again.body and again.headers["etag"] == first.headers["etag"]
        weak = client.call("GET", "/console/main.js", b"", {**coding, "If-None-Match": '"x", W/' + first.headers["etag"]})
        assert weak.status == 304
        other = client.call("GET", "/console/main.js", b"", {**coding, "If-None-Match": '"x"'})
        assert other.status == 200 and other.body == first.body
    head = client.call("HEAD", "/console/main.js")
    assert head.status == 200 and int(head.headers["content-length"]) == (REPO / "console" / "main.js").stat().st_size


def test_serves_nothing_but_its_own_files(client):
    for name in ("nothing.js", "..%2FREADME.md", "../README.md", "%2e%2e%2fREADME.md", "index.html/", "INDEX.HTML", "main.js.gz", "index.html%00", "."):
        assert get(client, name).status == 404, name
    assert client.call("POST", "/console/main.js").status == 405


def test_nothing_in_it_names_another_server_or_makes_code_of_text():
    for name in FILES:
        text = (REPO / "console" / name).read_text(encoding="utf-8")
        assert not re.search(r"(?:src|href|url|import|from)\s*[=(]?\s*[\"']?\s*(?:https?:)?//", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser|javascript:|\.setHTML|createContextualFragment", text), name
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=|<style", text), name


def words():
    """The table of words.js: id to its texts, by language."""
    table = (REPO / "console" / "words.js").read_text(encoding="utf-8").partition("const WORDS = {")[2].partition("\n};")[0]
    rows = re.findall(r'^    "([\w.-]+)": \["((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\],$', table, re.MULTILINE)
    assert len(rows) == len([line for line in table.splitlines() if line.strip()]), "each line is a row"
    assert len({row[0] for row in rows}) == len(rows), "none twice"
    return {key: (english, chinese) for key, english, chinese in rows}


def test_words_are_whole_in_both_languages():
    for key, (english, chinese) in words().items():
        assert english and chinese, key
        names = [set(re.findall(r"\{(\w+)[|}]", text)) for text in (english, chinese)]
        assert names[1] <= names[0], (key, "names something that the English words do not")
        assert not re.search(r"[\u4e00-\u9fff]", english), key
        assert english in ("English",) or re.search(r"[\u4e00-\u9fff]", chinese) or not re.search(r"[a-z]{4}", re.sub(r"\{\w+\}|tarry", "", chinese)), (key, "is not translated")


def test_every_word_that_is_used_is_there_and_every_other_is_not():
    table, used = words(), set()
    for name in FILES:
        if not name.endswith(".js") or name == "words.js":
            continue
        text = (REPO / "console" / name).read_text(encoding="utf-8")
        used |= {key for key in re.findall(r'"([a-z]\w*\.[\w.]+)"', text) if key in table}
        for key in re.findall(r'\bt\("([\w.]+)"', text):
            assert key in table, (name, key)
        for choice in re.findall(r"\bt\(\w+ \? \"([\w.]+)\" : \"([\w.]+)\"", text):
            assert set(choice) <= set(table), (name, choice)
        for prefix in re.findall(r"`([a-z]\w*\.)\$\{", text):
            found = {key for key in table if key.startswith(prefix)}
            assert found, (name, prefix)
            used |= found
        for field in [] if name not in ("settings.js", "delivery.js", "targets.js", "groups.js") else fields_of(text):  # of a form, whose group of words is its own
            found = {f"{group}.{field}" for group in ("settings", "settings.label", "deliver", "deliver.label", "dead_letter", "dead_letter.label", "groups", "groups.label")} & set(table)
            assert found, (name, field)
            used |= found
    assert set(table) == used, sorted(set(table) - used)


def fields_of(text):
    """The names of the fields of a form."""
    return set(re.findall(r'\{ name: "([\w.]+)"', text))


def test_forms_have_each_setting_of_the_api_with_a_label():
    properties = yaml.safe_load((REPO / "openapi.yaml").read_text(encoding="utf-8"))["components"]["schemas"]["settings"]["properties"]
    settings, delivery, targets, groups = ((REPO / "console" / name).read_text(encoding="utf-8") for name in ("settings.js", "delivery.js", "targets.js", "groups.js"))
    target, _, dead = delivery.partition("const DEAD")
    assert fields_of(settings) == set(properties) - {"deliver", "dead_letter", "sqs"}
    table = words()
    for group, names in (("settings", fields_of(settings)), ("deliver", fields_of(target + targets)), ("dead_letter", fields_of(dead)), ("groups", fields_of(groups))):
        assert names and {f"{group}.{name}" for name in names} | {f"{group}.label.{name}" for name in names} <= set(table), group


def needs(name):
    """The modules that this one imports before it runs."""
    return set(re.findall(r'^import .* from "\./([\w.]+)";$', (REPO / "console" / name).read_text(encoding="utf-8"), re.MULTILINE))


def test_the_first_view_is_small(client):
    """The page, its style, and all that the first page imports, as they go over the wire; the other pages come when they are asked for."""
    view, ahead = {"index.html", "console.css", "icon.svg", "theme.js"}, ["main.js", "overview.js"]
    while ahead:
        name = ahead.pop()
        view.add(name)
        ahead += needs(name) - view
    page = (REPO / "console" / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r'<link rel="modulepreload" href="([\w.]+)">', page)) == {name for name in view if name.endswith(".js")} - {"main.js", "theme.js"}, "all are asked for at once"
    assert not view & {"job.js", "jobs.js", "settings.js", "server.js", "topic.js", "login.js"}
    total = 0
    for name in view:
        reply = client.call("GET", f"/console/{name}", b"", GZIP)
        total += len(reply.body) + sum(len(key) + len(value) + 4 for key, value in reply.headers.items())
    assert total <= FIRST_VIEW_BYTES_MAX, (total, sorted(view))


def test_every_module_is_imported_by_another():
    pages = (REPO / "console" / "main.js").read_text(encoding="utf-8")
    used = set().union(*(needs(name) for name in FILES if name.endswith(".js"))) | set(re.findall(r'import\("\./([\w.]+)"\)', pages))
    assert used | {"main.js", "theme.js"} >= {name for name in FILES if name.endswith(".js")}
    assert used <= set(FILES)


def test_each_word_is_defined_once():
    """A second definition would silently replace the first one on another page."""
    names = re.findall(r'^    "([\w.]+)": \[', (REPO / "console" / "words.js").read_text(encoding="utf-8"), re.M)
    assert len(names) > 500 and sorted(names) == sorted(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


def test_the_page_of_events_offers_each_kind_of_event():
    kinds = re.search(r"const KINDS = \[(.*?)\]", (REPO / "console" / "events.js").read_text(encoding="utf-8"))
    names = re.findall(r'\] = "(\w+)"', (REPO / "src" / "core" / "job" / "event.c").read_text(encoding="utf-8"))
    assert len(names) > 20 and sorted(re.findall(r'"(\w+)"', kinds[1])) == sorted(names)
