#!/usr/bin/env python3
"""A call that fails is made again later: call_retry.py [SECONDS], 10 by default. The service is here as well: it answers 503 twice, then 200."""

import http.server
import sys
import threading
import urllib.error
import urllib.request

import tarry

delay = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0


class Service(http.server.BaseHTTPRequestHandler):
    calls = 0

    def do_POST(self):
        Service.calls += 1
        self.send_response(503 if Service.calls <= 2 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def call(job):
    request = urllib.request.Request(job.json()["url"], data=b"", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            print(f"call {job.attempt}: {answer.status}, done", flush=True)
    except urllib.error.HTTPError as refused:
        if refused.code != 503:
            raise  # tried again by the job's own backoff
        print(f"call {job.attempt}: 503, again later", flush=True)
        raise tarry.Retry(after=delay, error="the service answered 503") from None
    worker.stop(wait=False)  # a real worker runs until SIGTERM


service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
threading.Thread(target=service.serve_forever, daemon=True).start()
with tarry.Client() as client:
    client.push("calls", {"url": f"http://127.0.0.1:{service.server_port}/"})
    worker = tarry.Worker(client, "calls", call)
    worker.run()
