"""An issuer of JWTs: keys by openssl, its JWKS from a separate server. Shares no code with the server that trusts it."""

import base64
import contextlib
import http.server
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading
import time

ALGORITHMS = {"RS256": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
              "ES256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
              "EdDSA": ["-algorithm", "ED25519"]}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*words, data=None):
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


def raw_of_der(signature):
    """The two numbers of an ECDSA signature side by side, as JOSE has them."""
    numbers, rest = [], signature[2:]
    for _ in range(2):
        length = rest[1]
        numbers.append(rest[2:2 + length].lstrip(b"\0").rjust(32, b"\0"))
        rest = rest[2 + length:]
    return b"".join(numbers)


class Key:
    def __init__(self, algorithm, kid, directory):
        self.algorithm, self.kid = algorithm, kid
        self.path = pathlib.Path(directory) / f"{kid}.key"
        openssl("genpkey", *ALGORITHMS[algorithm], "-out", str(self.path))
        self.pem = openssl("pkey", "-in", str(self.path), "-pubout")
        self.der = openssl("pkey", "-in", str(self.path), "-pubout", "-outform", "DER")

    def jwk(self):
        if self.algorithm == "RS256":
            modulus = openssl("rsa", "-in", str(self.path), "-noout", "-modulus").decode().strip().split("=")[1]
            numbers = {"kty": "RSA", "n": b64(bytes.fromhex(modulus)), "e": "AQAB"}
        elif self.algorithm == "ES256":
            numbers = {"kty": "EC", "crv": "P-256", "x": b64(self.der[-64:-32]), "y": b64(self.der[-32:])}
        else:
            numbers = {"kty": "OKP", "crv": "Ed25519", "x": b64(self.der[-32:])}
        return {**numbers, "kid": self.kid, "use": "sig"}

    def sign(self, message):
        if self.algorithm != "EdDSA":
            signature = openssl("dgst", "-sha256", "-sign", str(self.path), data=message)
            return raw_of_der(signature) if self.algorithm == "ES256" else signature
        with tempfile.NamedTemporaryFile() as file:  # this one it signs only from a file
            file.write(message)
            file.flush()
            return openssl("pkeyutl", "-sign", "-inkey", str(self.path), "-rawin", "-in", file.name)


class Issuer:
    name, audience = "https://id.example", "tarry"

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.keys, self.fetched = [], 0
        self.answer = None  # instead of the JWKS: a function of the handler

    def key(self, algorithm="ES256", kid="one"):
        made = Key(algorithm, kid, self.directory)
        self.keys.append(made)
        return made

    def jwks(self):
        return json.dumps({"keys": [key.jwk() for key in self.keys]})

    def claims(self, **more):
        return {"iss": self.name, "aud": self.audience, "sub": "joe", "exp": int(time.time()) + 300,
                "scope": "push consume read", "topics": ["orders-*"], **more}

    def token(self, key=None, header=None, **claims):
        key = key or self.keys[-1]
        header = {"alg": key.algorithm, "kid": key.kid, "typ": "JWT"} if header is None else header
        payload = {name: value for name, value in self.claims(**claims).items() if value is not None}
        message = b64(json.dumps(header).encode()) + "." + b64(json.dumps(payload).encode())
        return message + "." + b64(key.sign(message.encode()))

    @contextlib.contextmanager
    def serve(self, certificate=None):
        """Yields the URL of the JWKS; with a certificate (its file and its key's) by https."""
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.fetched += 1
                if issuer.answer:
                    issuer.answer(self)
                    return
                body = issuer.jwks().encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/jwk-set+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"{'https' if certificate else 'http'}://localhost:{server.server_address[1]}/jwks.json"
        finally:
            server.shutdown()
            server.server_close()
