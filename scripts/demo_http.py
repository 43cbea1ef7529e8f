"""Closes unpaid orders without a consumer: tarry calls the shop when they fall due, and signs what it sends.

Twenty orders with a delay. One is paid in time, so its job is cancelled; for one the shop's answer is 500 twice, for another 410.
An argument after the address: the longest delay in seconds. Exit code 0 only if each came when it should, as often as it should, not early, with a valid signature. Standard library only.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import random
import sys
import threading
import time

from demo import Client, dim, green, paint, red

ORDERS = 20
TOPIC = "/v1/topics/unpaid-orders"


class Shop(http.server.ThreadingHTTPServer):
    """The shop's endpoint: verifies the signature, then answers by the number of the order."""

    daemon_threads = True

    def __init__(self, key, orders, failing, gone):
        super().__init__(("127.0.0.1", 0), Handler)
        self.key, self.orders, self.failing, self.gone = base64.b64decode(key), orders, failing, gone
        self.lock, self.faults = threading.Lock(), []

    def is_signed(self, headers, body):
        """Computes the signature of https://www.standardwebhooks.com: over id, timestamp and body."""
        text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        wanted = "v1," + base64.b64encode(hmac.new(self.key, text, hashlib.sha256).digest()).decode()
        fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
        return fresh and any(hmac.compare_digest(wanted, given) for given in headers["webhook-signature"].split(" "))

    def answer(self, headers, body):
        now, order = time.monotonic(), self.orders[headers["Tarry-Id"]]
        attempt = int(headers["Tarry-Attempt"])
        late = (now - order["sent"]) * 1000 - order["delay_ms"]
        status = 500 if order["id"] == self.failing and attempt < 3 else 410 if order["id"] == self.gone else 200
        signed = self.is_signed(headers, body)
        with self.lock:
            order["came"].append((attempt, status))
            if not signed or late < 0 or json.loads(body)["id"] != order["id"]:
                self.faults.append(order["id"])
            when = f"{late:8.2f} ms late" if attempt == 1 else f"attempt {attempt}"
            output = green(status) if status == 200 else paint("33", status)
            print(f"  {order['id']}  due after {order['delay_ms'] / 1000:5.2f} s  {when:>16}  "
                  f"{green('signature right') if signed else red('signature WRONG')}  shop answers {output}", flush=True)
        return status


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.answer(self.headers, body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def settle(client, shop):
    output = client.call("PUT", TOPIC, json.dumps({
        "deliver": {"to": f"http://127.0.0.1:{shop.server_port}/close-order/{{id}}", "sign": "shop", "timeout": "5s"},
        "backoff": "fixed:1s", "max_attempts": 5,
    }))
    print(f"  the topic delivers to {output['settings']['deliver']['to']}\n")


def push(client, orders):
    for order in orders.values():
        order["sent"] = time.monotonic()
        client.call("PUT", f"{TOPIC}/jobs/{order['id']}?delay={order['delay_ms']}ms", json.dumps({"id": order["id"], "amount": order["amount"]}))


def wait(client, seconds):
    """Waits until only dead jobs are left."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        counts = client.call("GET", TOPIC)["counts"]
        if not sum(count for state, count in counts.items() if state != "dead"):
            return
        time.sleep(0.1)


def show_dead(client, gone):
    dead = client.call("GET", f"{TOPIC}/jobs/{gone}")
    (last,) = dead["history"]
    kept = f"kept with its history: attempt {last['attempt']}, {last['outcome']}"
    print(f"\n  {gone} is {dead['state']}: {dead['last_error']}   {dim(kept)}")
    return dead["state"] == "dead"


def main():
    address, longest_s = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 6.0
    delays_s = (longest_s / 3, longest_s)
    chance = random.Random()
    orders = {f"order-{n:02}": {"id": f"order-{n:02}", "amount": f"{chance.uniform(5, 300):.2f}",
                                "delay_ms": round(chance.uniform(*delays_s) * 1000), "came": []} for n in range(1, ORDERS + 1)}
    paid, failing, gone = chance.sample(sorted(orders), 3)
    shop = Shop(os.environ["DEMO_KEY"], orders, failing, gone)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    client = Client(address)
    print(f"{paint('1', 'tarry demo')}: orders that are not paid in time are closed by a call   {dim('server at ' + address)}\n")
    settle(client, shop)
    push(client, orders)
    client.call("DELETE", f"{TOPIC}/jobs/{paid}")
    print(f"  pushed {ORDERS} orders, to be closed in {delays_s[0]:.0f} to {delays_s[1]:.0f} s; {paid} was paid, so its job is cancelled\n"
          f"  for {failing} the shop fails twice, {gone} it does not know any more\n  waiting ...\n", flush=True)
    wait(client, longest_s + 20)
    is_dead = show_dead(client, gone)
    plans = {paid: [], failing: [(1, 500), (2, 500), (3, 200)], gone: [(1, 410)]}
    wrong = [order["id"] for order in orders.values() if order["came"] != plans.get(order["id"], [(1, 200)])]
    ok = is_dead and not wrong and not shop.faults
    print("\n  " + (green("every order was delivered as expected, not early, and signed") if ok else red(f"something went wrong: {wrong or shop.faults}")))
    return 0 if ok else 1


sys.exit(main())
