"""docs/flow.md: its commands run as they stand, in their order, and do what the page promises."""

import os
import subprocess

import pytest
from pages import blocks
from server import BINARY

PAGE = "docs/flow.md"
pytestmark = pytest.mark.plain("the page shows a server on loopback, without token")


def run(server, command, **environment):
    """Runs a block. A thousand pushes take as long as a thousand programs, so there are fewer of them."""
    text = command.replace("127.0.0.1:8279", f"127.0.0.1:{server.port}").replace("seq 1000", "seq 20").replace("curl ", "curl -sS --fail --max-time 20 ")
    env = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "TARRY_URL": server.url, "LC_ALL": "C.UTF-8", **environment}
    done = subprocess.run(["bash", "-eu", "-c", text], capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, (command, done.stdout + done.stderr)
    return done.stdout


def test_the_commands_of_the_page_run(server):
    client, printed = server.client(), {}
    for number, language, lines in blocks(PAGE):
        if language != "sh":
            continue
        command, environment = "\n".join(lines), {}
        if "$LEASE" in command:
            client.push("calls", "rejected", group="CUSTOMER")
            environment["LEASE"] = client.take("calls", wait="10s")[0]["lease"]
        if "tarry get mail 17" in command:
            client.push("mail", "17", group="shop-9")
            client.good("POST", "/v1/topics/mail/groups/shop-9/pause")
        printed[number] = (command, run(server, command, **environment))
    output_of = lambda words: next(text for command, text in printed.values() if words in command)  # noqa: E731
    assert "shop-7" in output_of("tarry groups mail ") and len([line for line in output_of("--group noisy").splitlines() if line.endswith((" just one", " 1"))]) == 2
    assert client.topic("calls")["settings"]["rate"] == "10/s" and client.topic("orders")["settings"]["group_limit"] == 1
    [rejected] = [group for group in client.good("GET", "/v1/topics/calls/groups")["groups"] if group["group"] == "CUSTOMER"]
    assert rejected["held_by"] == "hold"
    assert client.good("POST", "/v1/topics/orders/take?max=5&wait=10s")["jobs"][0]["group"] == "customer-42"
    assert client.take("orders", wait="100ms") == [], "one at a time"
    assert "group_paused" in output_of("tarry get mail 17") and '"held_by":"group_paused"' in output_of("tarry get mail 17").replace(" ", "")
    assert client.call("GET", "/v1/topics/mail/groups/shop-8").status == 404
    assert len(printed) >= 8
