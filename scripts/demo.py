"""Closes unpaid orders: pushes a hundred with a delay, cancels ten as paid, takes the rest as they fall due.

Exit code 0 only if every other order was delivered once, and not early. Standard library only.
"""

import http.client
import json
import os
import queue
import random
import sys
import threading
import time

ORDERS, PAID = 100, 10
DELAY_S = (5.0, 15.0)
COLOURS = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOURS else text


def dim(text):
    return paint("2", text)


def green(text):
    return paint("32", text)


def red(text):
    return paint("1;31", text)


class Client:
    """A connection to the server."""

    def __init__(self, address):
        self.http = http.client.HTTPConnection(address, timeout=60)

    def call(self, method, target, body=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        self.http.request(method, target, body, headers)
        answer = self.http.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise SystemExit(f"{method} {target}: {answer.status} {content.decode()}")
        return json.loads(content)


class Acks(threading.Thread):
    """Acks on a connection of their own, so that the next take need not wait for the disk."""

    def __init__(self, address):
        super().__init__()
        self.leases = queue.Queue()
        self.client = Client(address)

    def run(self):
        while leases := self.leases.get():
            self.client.call("POST", "/v1/ack?" + "&".join("lease=" + lease for lease in leases))


def push(client, orders):
    took = []
    for order in orders.values():
        body = json.dumps({"id": order["id"], "amount": order["amount"], "user": order["user"]})
        order["sent"] = time.monotonic()
        client.call("PUT", f"/v1/topics/unpaid-orders/jobs/{order['id']}?delay={order['delay_ms']}ms", body)
        took.append((time.monotonic() - order["sent"]) * 1000)
    return sorted(took)[len(took) // 2]


def take(client, acks, orders, expected):
    """Takes until all are there, then a second longer: nothing else may come."""
    came = 0
    deadline = time.monotonic() + DELAY_S[1] + 10
    while time.monotonic() < deadline and came < expected:
        jobs = client.call("POST", "/v1/topics/unpaid-orders/take?max=10&wait=5s")["jobs"]
        now = time.monotonic()
        if jobs:
            acks.leases.put([job["lease"] for job in jobs])
        came += show(orders, jobs, now)
    return came + show(orders, client.call("POST", "/v1/topics/unpaid-orders/take?max=10&wait=1s")["jobs"], time.monotonic())


def show(orders, jobs, now):
    for job in jobs:
        order = orders[job["id"]]
        late = (now - order["sent"]) * 1000 - order["delay_ms"]
        order["late_ms"].append(late)
        mark = green(f"{late:6.2f} ms late") if late >= 0 else red(f"{-late:6.2f} ms EARLY")
        print(f"  {order['id']}  due after {order['delay_ms'] / 1000:6.3f} s  {mark}  "
              + dim(f"{job['body']['amount']:>7} {job['body']['user']}"), flush=True)
    return len(jobs)


def at(values, fraction):
    return values[min(len(values) - 1, int(len(values) * fraction))]


def report(client, orders, paid, push_ms):
    lates = sorted(late for order in orders.values() for late in order["late_ms"])
    due = [order for order in orders.values() if order["id"] not in paid]
    faults = {
        "never delivered": sum(not order["late_ms"] for order in due),
        "delivered twice": sum(len(order["late_ms"]) > 1 for order in orders.values()),
        "delivered though cancelled": sum(bool(orders[id]["late_ms"]) for id in paid),
        "early": sum(late < 0 for late in lates),
        "still in the queue": sum(client.call("GET", "/v1/topics/unpaid-orders")["counts"].values()),
    }
    print(f"\n  pushed     {len(orders)}   {dim(f'each answered after it was on disk, in {push_ms:.1f} ms (median)')}")
    print(f"  cancelled  {len(paid)}")
    print(f"  delivered  {len(lates)}")
    for what, count in faults.items():
        print(f"  {what}: {red(count) if count else green(count)}")
    if lates:
        print(f"  late by    p50 {at(lates, 0.5):.2f} ms, p99 {at(lates, 0.99):.2f} ms, max {lates[-1]:.2f} ms   "
              + dim("measured from the moment before the push was sent"))
    return not any(faults.values()) and len(lates) == len(due)


def main():
    address = sys.argv[1]
    chance = random.Random()
    users = ["ada", "bela", "chen", "dara", "emil", "fatou", "gus", "hana"]
    orders = {
        f"order-{n:03}": {
            "id": f"order-{n:03}", "amount": f"{chance.uniform(5, 300):.2f}", "user": chance.choice(users),
            "delay_ms": round(chance.uniform(*DELAY_S) * 1000), "late_ms": [],
        }
        for n in range(1, ORDERS + 1)
    }
    print(f"{paint('1', 'tarry demo')}: orders that are not paid in time are closed   {dim('server at ' + address)}\n")
    client, acks = Client(address), Acks(address)
    push_ms = push(client, orders)
    print(f"  pushed {ORDERS} orders, to be closed in {DELAY_S[0]:.0f} to {DELAY_S[1]:.0f} s", flush=True)
    paid = chance.sample(sorted(orders), PAID)
    for id in paid:
        client.call("DELETE", f"/v1/topics/unpaid-orders/jobs/{id}")
    print(f"  {PAID} were paid, so their jobs are cancelled: {dim(', '.join(sorted(paid)))}\n  waiting ...\n", flush=True)

    acks.start()
    try:
        take(client, acks, orders, ORDERS - PAID)
    finally:
        acks.leases.put(None)
        acks.join()
    ok = report(client, orders, paid, push_ms)
    print("\n  " + (green("every order was delivered once, not early") if ok else red("something went wrong")))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
