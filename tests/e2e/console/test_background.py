"""Work in the background that fails again and again is a problem of /v1/status, with its runbook and its metric."""

import re
import resource
import signal

from server import Server, eventually


def problems_of(client):
    return {problem["code"]: problem for problem in client.call("GET", "/v1/status").json()["problems"]}


def failing_seconds(client, work):
    text = client.call("GET", "/metrics").body.decode()
    return float(re.search(rf'^tarry_background_failing_seconds{{work="{work}"}} (\S+)$', text, re.MULTILINE).group(1))


def limited(server, file_bytes):
    """Starts the server so that no file grows beyond that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, before[1]))
    try:
        return server.launch()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_failing_checkpoints_are_a_problem_of_the_status(start_server):
    server = start_server("--wal-file", "4MiB", started=False)
    limited(server, 4200 << 10).wait_listening()
    client = server.wait_ready().client()
    assert failing_seconds(client, "checkpoint") == 0
    for number in range(250):
        client.push("t", str(number), body=b"x" * 60_000, delay="1h")
    problem = eventually(lambda: problems_of(client).get("checkpoint"), 60, 0.5)
    assert (problem["severity"], problem["runbook"]) == ("warning", "background")
    assert problem["value"] > 10_000 and problem["sentence"].startswith("checkpoints of shard 00 have failed for ")
    assert failing_seconds(client, "checkpoint") > 10
    server.kill()  # at the limit, in the midst of a checkpoint that fails
    server.start()
    assert server.client().topic("t")["counts"]["delayed"] == 250
    assert server.terminate() == 0 and "clean" in server.fsck().stdout


def test_a_limit_of_the_size_of_files_ends_no_server_without_a_word(tmp_path):
    server = Server(tmp_path)
    limited(server, 10_000)
    assert server.proc.wait(60) not in (-signal.SIGXFSZ, 0)
    assert "File too large" in server.log()


def test_an_unreadable_configuration_is_a_problem_until_it_is_read(start_server, tmp_path):
    file = tmp_path / "tarry.conf"
    file.write_text("max-waiting = 10\n", encoding="utf-8")
    server = start_server("--config", str(file))
    client = server.client()
    file.write_text("max-waiting = nonsense\n", encoding="utf-8")
    server.proc.send_signal(signal.SIGHUP)
    problem = eventually(lambda: problems_of(client).get("background"), 30, 0.1)
    assert "configuration" in problem["sentence"]
    file.write_text("max-waiting = 11\n", encoding="utf-8")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: "background" not in problems_of(client), 30, 0.1)
