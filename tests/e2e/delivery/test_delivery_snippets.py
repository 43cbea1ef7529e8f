"""docs/delivery.md: what it shows of verifying signatures does verify what the server sends, and nothing else, each language where it is installed; its policy
file is one; and its table of networks is the guard's."""

import base64
import hashlib
import hmac
import ipaddress
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from endpoint import SECRET, Endpoint, write_policy
from server import REPO, Server, eventually

PAGE = REPO / "docs" / "delivery.md"
OLDER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
STRANGER = "whsec_dGFycnktZXhhbXBsZS1rZXktMjQtYnl0"
BODY = '{"total": 12, "note": "grüße.1.2"}\r\n'.encode() + b"\x00\xff"
SECONDS = 150

# Each reads lines of  id TAB timestamp TAB signatures TAB secret TAB base64(body)  and answers yes or no.
PYTHON = """
import sys
for line in sys.stdin:
    *values, secret, body = line.rstrip("\\n").split("\\t")
    try:
        verify(secret, dict(zip(("webhook-id", "webhook-timestamp", "webhook-signature"), values)), base64.b64decode(body))
        print("yes")
    except ValueError:
        print("no")
"""
JAVA = """
final class Driver {
    public static void main(String[] none) throws Exception {
        for (String line : new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\\n")) {
            String[] v = line.split("\\t", -1);
            var headers = java.util.Map.of("webhook-id", v[0], "webhook-timestamp", v[1], "webhook-signature", v[2]);
            System.out.println(Webhook.verify(v[3], headers::get, Base64.getDecoder().decode(v[4])) ? "yes" : "no");
        }
    }
}

"""
GO = """package main

import (
	"bufio"
	"encoding/base64"
	"os"
	"strings"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		v := strings.Split(lines.Text(), "\\t")
		headers := map[string]string{"webhook-id": v[0], "webhook-timestamp": v[1], "webhook-signature": v[2]}
		body, _ := base64.StdEncoding.DecodeString(v[4])
		output := "yes\\n"
		if Verify(v[3], func(name string) string { return headers[name] }, body) != nil {
			output = "no\\n"
		}
		os.Stdout.WriteString(output)
	}
}
"""
PHP = """
while (($line = fgets(STDIN)) !== false) {
    $v = explode("\\t", rtrim($line, "\\n"));
    $headers = ['webhook-id' => $v[0], 'webhook-timestamp' => $v[1], 'webhook-signature' => $v[2]];
    echo verify($v[3], $headers, base64_decode($v[4])) ? "yes\\n" : "no\\n";
}
"""
NODE = """
import { readFileSync } from "node:fs";
for (const line of readFileSync(0, "utf8").trimEnd().split("\\n")) {
  const v = line.split("\\t");
  const headers = { "webhook-id": v[0], "webhook-timestamp": v[1], "webhook-signature": v[2] };
  console.log(verify(v[3], headers, Buffer.from(v[4], "base64")) ? "yes" : "no");
}
"""


def snippet(fence):
    """The block of that language in the section about signatures."""
    section = PAGE.read_text(encoding="utf-8").split("\n## Verifying a signature\n")[1].split("\n## ")[0]
    (found,) = re.findall(rf"^```{fence}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return found


# ---- what is to be verified ----


def sign(secret, message, timestamp, body):
    """Signs by the specification, not by the server: messages that it would never send must also be rejected."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


@pytest.fixture(scope="module")
def message(tmp_path_factory):
    """(id, timestamp, signatures) of a job that a server delivered a moment ago; it was signed by two keys."""
    directory = tmp_path_factory.mktemp("delivery")
    policy = write_policy(directory / "policy", f"sign = default {OLDER}")
    endpoint = Endpoint().start()
    server = Server(directory / "server", ("--deliver", policy))
    try:
        client = server.start().client()
        setting = json.dumps({"deliver": {"to": endpoint.url + "/in"}}).encode()
        client.good("PUT", "/v1/topics/orders", setting, {"Content-Type": "application/json"})
        client.good("PUT", "/v1/topics/orders/jobs/a.b", BODY)
        eventually(lambda: endpoint.calls)
        server.terminate()
    finally:
        server.kill()
        endpoint.stop()
    headers = endpoint.calls[0].headers
    assert endpoint.calls[0].body == BODY
    assert "." not in headers["webhook-id"] and len(headers["webhook-signature"].split(" ")) == 2
    return headers["webhook-id"], headers["webhook-timestamp"], headers["webhook-signature"]


def cases(message):
    """(what it is, id, timestamp, signatures, secret, body, is it good?)"""
    name, at, both = message
    first, second = both.split(" ")
    now = int(time.time())

    def of_age(seconds):
        return str(now - seconds), sign(SECRET, name, now - seconds, BODY)

    return [
        ("as it came", name, at, both, SECRET, BODY, True),
        ("with the older key", name, at, both, OLDER, BODY, True),
        ("the signature of one's own key is the only one", name, at, first, SECRET, BODY, True),
        ("the other signature is the only one", name, at, second, SECRET, BODY, False),
        ("signatures of other versions beside it", name, at, f"v1a,xyz v2,{first[3:]} {first}", SECRET, BODY, True),
        ("another version alone", name, at, "v2," + first[3:], SECRET, BODY, False),
        ("a changed body", name, at, both, SECRET, BODY.replace(b"12", b"13"), False),
        ("a shorter body", name, at, both, SECRET, BODY[:-1], False),
        ("an empty body", name, at, both, SECRET, b"", False),
        ("another id", name + "0", at, both, SECRET, BODY, False),
        ("another timestamp", name, str(int(at) + 1), both, SECRET, BODY, False),
        ("a key of somebody else", name, at, both, STRANGER, BODY, False),
        ("no signature", name, at, "", SECRET, BODY, False),
        ("half a signature", name, at, first[:-4], SECRET, BODY, False),
        ("no timestamp", name, "", both, SECRET, BODY, False),
        ("a timestamp that is no number", name, "now", sign(SECRET, name, "now", BODY), SECRET, BODY, False),
        ("four minutes old", name, *of_age(240), SECRET, BODY, True),
        ("six minutes old", name, *of_age(360), SECRET, BODY, False),
        ("four minutes ahead", name, *of_age(-240), SECRET, BODY, True),
        ("six minutes ahead", name, *of_age(-360), SECRET, BODY, False),
        ("very old", name, "0", sign(SECRET, name, 0, BODY), SECRET, BODY, False),
    ]


def check(message, command, directory, environment=None):
    given = cases(message)
    lines = "".join("\t".join((*case[1:5], base64.b64encode(case[5]).decode())) + "\n" for case in given)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=directory, env=environment, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split()
    assert len(answers) == len(given), done.stdout + done.stderr
    wrong = [case[0] for case, answer in zip(given, answers) if answer != ("yes" if case[6] else "no")]
    assert not wrong, wrong


def need(program):
    return shutil.which(program) or pytest.skip(f"there is no {program} here")


# ---- the languages ----


def test_python(message, tmp_path):
    (tmp_path / "verify.py").write_text(snippet("python") + PYTHON, encoding="utf-8")
    check(message, ["/usr/bin/python3", "verify.py"], tmp_path)


@pytest.mark.thorough("needs a JDK")
def test_java(message, tmp_path):
    java = need("java")
    need("javac")  # a runtime alone does not run sources
    # Java runs the first class of a single file.
    text = snippet("java").replace("final class Webhook {", JAVA + "final class Webhook {")
    (tmp_path / "Verify.java").write_text(text, encoding="utf-8")
    check(message, [java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "Verify.java"], tmp_path)


@pytest.mark.thorough("needs Go, which compiles its library first")
def test_go(message, tmp_path):
    go = need("go")
    (tmp_path / "verify.go").write_text(snippet("go").replace("package webhook", "package main"), encoding="utf-8")
    (tmp_path / "main.go").write_text(GO, encoding="utf-8")
    environment = {**os.environ, "GOFLAGS": "", "GO111MODULE": "auto", "GOTOOLCHAIN": "local", "GOPROXY": "off", "CGO_ENABLED": "0"}
    if not os.access(os.environ.get("HOME", "/nonexistent"), os.W_OK):
        environment["GOCACHE"] = str(tmp_path / "cache")
    # Compiling the standard library for the first time takes more than a minute on a slow machine, and a message is good for minutes only.
    # The program is not optimised, because it is run once.
    built = subprocess.run([go, "build", "-gcflags=all=-N -l", "-ldflags=-s -w", "-o", "verify", "verify.go", "main.go"],
                           capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=SECONDS, check=False)
    assert built.returncode == 0, built.stderr
    check(message, ["./verify"], tmp_path)


@pytest.mark.thorough("needs PHP")
def test_php(message, tmp_path):
    php = need("php")
    (tmp_path / "verify.php").write_text(snippet("php") + PHP, encoding="utf-8")
    check(message, [php, "-n", "verify.php"], tmp_path)


@pytest.mark.thorough("needs Node")
def test_node(message, tmp_path):
    node = need("node")
    (tmp_path / "verify.mjs").write_text(snippet("js") + NODE, encoding="utf-8")
    check(message, [node, "verify.mjs"], tmp_path)


# ---- the rest of the page ----


def test_the_policy_file_is_one(start_server, tmp_path):
    (text,) = re.findall(r"^```ini\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program, certificates = tmp_path / "page", tmp_path / "ca.pem"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    certificates.write_text("", encoding="utf-8")
    for named, own in (("/usr/local/bin/page", program), ("/etc/tarry/our-ca.pem", certificates)):
        assert named in text
        text = text.replace(named, str(own))
    policy = tmp_path / "policy"
    policy.write_text(text, encoding="utf-8")
    policy.chmod(0o600)
    start_server("--deliver", str(policy))


def test_every_unreachable_network_is_reported():
    section = PAGE.read_text(encoding="utf-8").split("\n## What cannot be reached\n")[1]
    reported = [ipaddress.ip_network(text) for text in re.findall(r"[0-9a-f:.]+/\d+", section)]
    rows = re.findall(r'^    \{"([^"]+)", (CLOSED|HOLDS|RELAYS),', (REPO / "src" / "delivery" / "guard" / "network.c").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 40
    for text, _ in rows:
        network = ipaddress.ip_network(text)
        by_itself = re.search(rf"[ `(]{re.escape(text.split('/')[0])}[ ,`.)]", section)
        holds = text == "::/96" and "compatible (`::a.b.c.d`)" in section
        others = text == "::/0" and "all that is not in 2000::/3" in section
        assert by_itself or holds or others or any(network.version == one.version and network.subnet_of(one) for one in reported if one.prefixlen > 3), text
