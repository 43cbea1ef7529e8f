"""TARRY_TEST_DOORS=1: the servers of all tests serve TLS and require a token, and their clients have both.

A client that dials a server's port (a Door) uses TLS with the authority's certificate; requests of client.py carry the token of an operator
who may do everything. Requests that tests send as bytes of their own carry none: there the connection shows a client's certificate, which may do the same.
The command line gets URL, authority and token by its variables. Servers that a test gives doors of its own (--tokens, --tls-cert) stay as they are.
"""

import atexit
import functools
import os
import pathlib
import re
import shutil
import ssl
import tempfile

ON = os.environ.get("TARRY_TEST_DOORS") == "1"
DIRECTORY = "TARRY_TEST_DOORS_DIRECTORY"  # of the first process of a run, for those that it starts
OWN = ("--tokens", "--tls-cert", "--tls-key", "--tls-client-ca", "--jwt-issuer", "--jwt-keys")
# A file of tests with one of these gives its servers doors of its own: it is the same with and without.
OWN_IN_FILE = re.compile(r"Authority\(|TokenFile\(|,tls\b|HAProxy\(")


class Door(int):
    """A port where TLS is spoken."""


@functools.cache
def token():
    from tokens import Token

    return Token("operator")


def _make(directory):
    from certificates import Authority
    from tokens import TokenFile

    authority = Authority(directory)
    authority.sign("server")
    authority.sign("raw", names="DNS:raw")
    TokenFile(directory / "tokens", token())
    with open(directory / "tokens", "a", encoding="ascii") as file:
        file.write("certificate raw scope=push,consume,read,admin topics=* created=2026-01-01T00:00:00.000Z\n")
    directory.chmod(0o755)
    (directory / ".curlrc").write_text(f'cacert = "{authority.file}"\nheader = "Authorization: Bearer {token().secret}"\n', encoding="ascii")


@functools.cache
def directory():
    found = os.environ.get(DIRECTORY)
    if found:
        return pathlib.Path(found)
    made = pathlib.Path(tempfile.mkdtemp(prefix="tarry-doors-"))
    _make(made)
    # Of curl and of the command line, however a test starts them.
    os.environ.update({DIRECTORY: str(made), "CURL_HOME": str(made), "TARRY_CA": str(made / "authority.pem"), "TARRY_TOKEN": token().secret})
    here = os.getpid()
    atexit.register(lambda: shutil.rmtree(made, ignore_errors=True) if os.getpid() == here else None)
    return made


def has_own(path):
    return ON and bool(OWN_IN_FILE.search(path.read_text(encoding="utf-8")))


def are_for(flags):
    """Is a server with these flags one that gets doors?"""
    return ON and not any(str(flag).split("=")[0] in OWN for flag in flags)


def flags():
    where = directory()
    return ["--tls-cert", str(where / "server.pem"), "--tls-key", str(where / "server.key"), "--tls-client-ca", str(where / "authority.pem"),
            "--tokens", str(where / "tokens")]


@functools.cache
def _context(shows_certificate):
    context = ssl.create_default_context(cafile=str(directory() / "authority.pem"))
    if shows_certificate:
        context.load_cert_chain(directory() / "raw.pem", directory() / "raw.key")
    return context


def wrap(tcp, shows_certificate):
    """A connected socket as one that speaks TLS; the handshake is done."""
    return _context(shows_certificate).wrap_socket(tcp, server_hostname="localhost")


if ON:
    directory()
