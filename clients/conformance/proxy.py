"""A proxy between a client and the server that does what networks and proxies do: cuts, delays, repeats, answers for itself."""

import email.utils
import http.client
import http.server
import socket
import threading
import time

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class Proxy:
    """
    `rules`: each applies to requests whose line begins with "match", so many "times" (without: always), after "skip" of them. "do" is one of
      cut_before   the request never reaches the server          cut_after   it does, its answer is lost
      cut_within   half of the answer's body comes                delay       "ms" go by before the answer
      cut_while    the connection is cut after "ms", while the server works on the request
      repeat       the request reaches the server twice          answer      "status", "headers", "body" without the server
    """

    def __init__(self, port):
        self.server_port, self.rules, self.seen = port, [], []
        self.lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_any(self):
                proxy._serve(self)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_any

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, request, client_address):
                pass  # cut, as a rule requires

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_address[1]}"
        threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self.listener.shutdown()
        self.listener.server_close()

    def set(self, rules):
        with self.lock:
            self.rules = [dict(rule) for rule in rules]
            self.seen = []

    def count(self, begins):
        with self.lock:
            return sum(line.startswith(begins) for line in self.seen)

    def _rule(self, line):
        with self.lock:
            self.seen.append(line)
            for rule in self.rules:
                if not line.startswith(rule["match"]):
                    continue
                if rule.get("skip", 0) > 0:
                    rule["skip"] -= 1
                    continue
                if "times" in rule:
                    if rule["times"] == 0:
                        continue
                    rule["times"] -= 1
                return rule
        return {"do": "pass"}

    def _forward(self, handler, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=60)
        try:
            headers = {name: value for name, value in handler.headers.items() if name.lower() not in HOP}
            connection.request(handler.command, handler.path, body, {**headers, "Host": f"127.0.0.1:{self.server_port}"})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _forward_quietly(self, handler, body):
        try:
            self._forward(handler, body)
        except (OSError, http.client.HTTPException):
            pass  # the client has gone

    def _cut(self, handler):
        handler.close_connection = True
        try:
            handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        rule = self._rule(f"{handler.command} {handler.path}")
        do = rule["do"]
        if do == "cut_before":
            return self._cut(handler)
        if do == "answer":
            now = time.time() + rule.get("clock_ahead_s", 0)
            headers = [(name, email.utils.formatdate(now + value["in_s"], usegmt=True) if isinstance(value, dict) else str(value))
                       for name, value in rule.get("headers", {}).items()]
            return self._answer(handler, rule["status"], [*headers, ("Date", email.utils.formatdate(now, usegmt=True))], rule.get("body", "{}").encode())
        if do == "cut_while":
            threading.Thread(target=self._forward_quietly, args=(handler, body), daemon=True).start()
            time.sleep(rule["ms"] / 1000)
            return self._cut(handler)
        if do == "delay":
            time.sleep(rule["ms"] / 1000)
        try:
            if do == "repeat":
                self._forward(handler, body)
            status, headers, answer = self._forward(handler, body)
        except (OSError, http.client.HTTPException):
            return self._cut(handler)  # the server is away
        if do == "cut_after":
            return self._cut(handler)
        return self._answer(handler, status, headers, answer, len(answer) // 2 if do == "cut_within" else None)

    def _answer(self, handler, status, headers, body, only=None):
        handler.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        try:
            handler.wfile.write(body if only is None else body[:only])
            handler.wfile.flush()
        except OSError:
            pass
        if only is not None:
            self._cut(handler)
