"""A real HTTP endpoint for callbacks, in this process: what it answers is a function, what came is kept."""

import http.server
import os
import socket
import threading
import time

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Call:
    """A received request: `meta` are its headers with small names; `n` counts the calls with the same Tarry-Id, from 1."""

    def __init__(self, path, headers, body, n):
        self.path, self.headers, self.body, self.n, self.at = path, headers, body, n, time.time()

    @property
    def id(self):
        return self.headers.get("tarry-id")

    @property
    def attempt(self):
        return int(self.headers["tarry-attempt"])


class Endpoint:
    """Starts an endpoint; `answer(call)` returns a status, (status, headers), (status, headers, body), or None to hang up. It may sleep."""

    def __init__(self, answer=lambda call: 200, port=0, host="127.0.0.1"):
        self.answer, self.port, self.host, self.calls = answer, port, host, []
        self.lock, self.server, self.most_at_once, self._now = threading.Lock(), None, 0, 0
        self._open = set()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                endpoint._serve(self)

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 1024
            address_family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET

            def handle_error(self, request, client_address):
                pass  # the peer is gone, as the test intends

        self.server = Listener((self.host, self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self):
        """Listens no more and cuts what is open: the port refuses from now on."""
        if not self.server:
            return
        self.server.shutdown()
        self.server.server_close()
        self.server = None
        self.cut()

    def cut(self):
        """Closes all connections that are open, idle ones as well."""
        with self.lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    @property
    def url(self):
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    def ids(self):
        with self.lock:
            return [call.id for call in self.calls]

    def of(self, job_id):
        with self.lock:
            return [call for call in self.calls if call.id == job_id]

    def _serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self.lock:
            n = sum(call.id == headers.get("tarry-id") for call in self.calls) + 1 if len(self.calls) < 2000 else 1
            call = Call(handler.path, headers, body, n)
            self.calls.append(call)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self._open.add(handler.connection)
        try:
            output = self.answer(call)
        finally:
            with self.lock:
                self._now -= 1
        if output is None:
            handler.close_connection = True
            return
        status, extra, answer = (*output, b"")[:3] if isinstance(output, tuple) else (output, {}, b"")
        handler.send_response(status)
        if "Content-Length" not in extra:
            handler.send_header("Content-Length", str(len(answer)))
        for name, value in extra.items():
            handler.send_header(name, str(value))
        handler.end_headers()
        handler.wfile.write(answer)


def write_policy(path, *lines):
    """A policy file that allows this machine, with a key; more lines as given. Returns the path."""
    text = ["allow-host = 127.0.0.1", "allow-host = localhost", "allow-network = 127.0.0.0/8", f"sign = default {SECRET}", *lines]
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        out.write("\n".join(text) + "\n")
    return str(path)
