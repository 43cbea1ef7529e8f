"""
docs/runbooks: the server shows every page, their links and names exist, and their commands are run, on
a server that is late, stuck, full, … as the page has it: its blocks of `sh` are run as they stand.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess

import pytest
from certificates import Authority
from conftest import FLAGS
from pages import blocks
from postgres import PostgresServer
from redis_servers import RedisServer
from redis_serving import metric
from server import BINARY, REPO, Server, eventually
from test_status import House
from ways_in import cli_commands

FOLDER = REPO / "docs" / "runbooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
PARTS = ["First checks", "Causes", "Resolved when"]


def anchors(page):
    """The anchors of its headings, as readers of Markdown make them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_a_server_shows_every_page(server):
    client = server.client()
    for target, file in [("/runbooks", "README"), *((f"/runbooks/{name}", name) for name in NAMES), ("/runbooks/late.md", "late")]:
        reply = client.call("GET", target)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8"), target
        assert reply.body == (FOLDER / f"{file}.md").read_bytes(), target
    for name in ("none", "lat", "late.mdx", "..%2Flate", "%00"):
        assert client.call("GET", f"/runbooks/{name}").status == 404, name


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_its_parts_and_its_links_lead_somewhere(name):
    page = FOLDER / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == PARTS
    assert "**You see**" in text and "**How bad**" in text
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        there = (FOLDER / target).resolve()
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_the_list_has_every_page():
    assert sorted(re.findall(r"^\| \[([\w-]+)\]\(\1\.md\)", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)) == NAMES


# ---- what is named ----


def text_of(name):
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def tarry_help(*words):
    return subprocess.run([BINARY, "help", *words], capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.fixture(scope="module")
def names():
    """Names that a page may use: commands, options, metrics, alerts, and the texts of the program."""
    pages = {command: tarry_help(command) for command in cli_commands()}
    return {
        "commands": pages,
        "metrics": set(re.findall(r"^\| `(\w+)`", tarry_help("metrics"), re.MULTILINE)),
        "alerts": set(re.findall(r"alert: (\w+)", (REPO / "packaging/prometheus/tarry.rules.yml").read_text(encoding="utf-8"))),
        "program": "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPO / "src").rglob("*.c"))),
    }


@pytest.mark.parametrize("name", [*NAMES, "README"])
def test_names_in_the_runbooks_exist(name, names):
    text = text_of(name)
    marked = {word.strip() for word in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))}
    assert {word for word in re.findall(r"\btarry_\w+", text)} <= names["metrics"]
    assert {word for word in re.findall(r"\bTarry[A-Z]\w+", text)} <= names["alerts"]
    for command, rest in re.findall(r"\btarry ([a-z]+)\b([^`\n|]*)", "\n".join([*marked, *re.findall(r"```sh\n(.*?)```", text, re.DOTALL)])):
        assert command in names["commands"], command
        for option in re.findall(r"--[a-z-]+", rest):
            assert f"  {option}" in names["commands"][command], (command, option)
    for option in [word for word in marked if re.fullmatch(r"--[a-z-]+", word)]:
        assert any(f"  {option}" in page for page in names["commands"].values()), option
    logged = {word for word in marked if re.fullmatch(r"(redis|log|start|wall|certificate|lease|the queue) [a-z ]+", word)}
    codes = {word for word in re.findall(r"50[37] `(\w+)`", text)}
    assert not [word for word in logged | codes if f'"{word}"' not in names["program"]]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("store", "down")])
def test_each_alert_leads_to_a_page_that_names_it(name):
    rules = (REPO / "packaging/prometheus/tarry.rules.yml").read_text(encoding="utf-8")
    alerts = re.findall(rf"alert: (\w+)(?:(?!alert:).)*?/runbooks/{name}\"", rules, re.DOTALL)
    assert alerts and not [alert for alert in alerts if alert not in text_of(name)]


# ---- what is typed ----

WELL, WARNINGS, CRITICAL, UNKNOWN = range(4)
# These belong to a machine that tarry is installed on: no more is looked at than that they know the options.
OF_THE_MACHINE = ("systemctl", "journalctl", "dmesg", "timedatectl")
PLACES = {"127.0.0.1:8279": lambda server: f"127.0.0.1:{server.port}", "/var/lib/tarry": lambda server: str(server.directory)}


class Reader:
    """An operator who reads a page and types its commands."""

    def __init__(self, name, server, **places):
        self.server = server
        self.places = {**{old: new(server) for old, new in PLACES.items()}, **places}
        self.left = [(number, "\n".join(lines)) for number, language, lines in blocks(f"docs/runbooks/{name}.md") if language == "sh"]

    def type(self, code, pattern):
        """The next block: how it ends, and what is seen."""
        while True:
            number, text = self.left.pop(0)
            if text.split()[0] not in OF_THE_MACHINE:
                break
            self.look_at_options(text)
        for old, new in self.places.items():
            text = text.replace(old, new)
        environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "TARRY_URL": self.server.url, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["bash", "-o", "pipefail", "-c", text], capture_output=True, text=True, env=environment, timeout=30, check=False)
        assert done.returncode == code and re.search(pattern, done.stdout + done.stderr, re.DOTALL), (number, text, done)

    def look_at_options(self, text):
        for line in text.splitlines():
            command, *rest = line.split(" | ")[0].split()
            if shutil.which(command):  # a bare system has no systemd
                known = subprocess.run([command, "--help"], capture_output=True, text=True, timeout=30, check=False, env={**os.environ, "LC_ALL": "C"}).stdout
                for option in [word.partition("=")[0] for word in rest if word.startswith("-")]:
                    assert option in known, line

    def end(self):
        while self.left:
            _, text = self.left.pop(0)
            assert text.split()[0] in OF_THE_MACHINE, "a block that nobody typed: " + text
            self.look_at_options(text)


def reports_well(server):
    return server.cli("status").returncode == WELL


# Each of these brings a server into the state that its page is for, types what is there, and puts it right; mind() sees to the server's end.


def late(place, mind):
    house = House(place)
    mind(house.server)
    house.client.push_batch([{"topic": "orders", "id": f"j{n}"} for n in range(120)])
    house.client.good("GET", "/v1/status")
    house.clock.sleep(5)
    house.client.ack(*[job["lease"] for job in house.client.take("orders", max=60)])
    reader = Reader("late", house.server)
    reader.type(WARNINGS, r"late +\S.*deliveries are.*runbooks/late")
    reader.type(0, r"TOPIC +DELAYED +READY.* OUT/S.*orders +0 +60 ")
    house.client.ack(*[job["lease"] for job in house.client.take("orders", max=100)])
    house.clock.sleep(100)
    assert reports_well(house.server)
    reader.end()


def stuck(place, mind):
    house = House(place)
    mind(house.server)
    house.client.push("orders", "a")
    house.client.good("GET", "/v1/status")
    house.clock.sleep(70)
    reader = Reader("stuck", house.server)
    reader.type(CRITICAL, r"no worker takes the ready jobs of 'orders'")
    reader.type(0, r"TOPIC.*orders")
    house.client.ack(house.client.take("orders")[0]["lease"])
    house.clock.sleep(100)
    assert reports_well(house.server)
    reader.end()


def held(place, mind):
    house = House(place)
    mind(house.server)
    house.client.good("PUT", "/v1/topics/orders?limit=1")
    for ident in ("a", "b"):
        house.client.push("orders", ident, group="shop-7")
    [job] = house.client.take("orders", lease_for="12h")
    house.client.good("GET", "/v1/status")
    house.clock.sleep(700)
    reader = Reader("held", house.server)
    reader.type(WARNINGS, r"held +all ready jobs of 'orders' are held.*runbooks/held")
    reader.type(0, r"GROUP +READY +LEASED +HELD BY.*shop-7 +1 +1 +limit")
    house.client.ack(job["lease"])
    house.client.ack(house.client.take("orders")[0]["lease"])
    house.clock.sleep(100)
    assert reports_well(house.server)
    reader.end()


def dead(place, mind):
    server = mind(Server(place / "server", FLAGS)).start()
    client = server.client()
    for number, error in enumerate(["http 420"] * 4 + ["http 410"] * 2, 1):
        client.push("bills", str(number), max_attempts=1)
        client.nack(client.take("bills")[0]["lease"], error=error)
    reader = Reader("dead", server)
    assert server.cli("status").returncode == WARNINGS
    reader.type(0, r"DEAD.*bills +.* 6\b")
    reader.type(0, r"LAST ERROR.*http 420.*http 410")
    reader.type(0, r'"error":"http 420","count":4,.*"error":"http 410","count":2,')
    reader.type(0, r"redriven 1\n3 jobs would be redriven\nredriven 3\npurged 2\n")
    assert reports_well(server)
    reader.end()


def full(place, mind):
    with RedisServer() as redis:
        server = mind(Server(place / "server", ["--store", redis.url, "--shards", "1"])).start()
        client = server.client()
        client.push("orders", "a", delay="1h")
        redis.client().config_set("maxmemory", redis.client().info("memory")["used_memory"])
        eventually(lambda: client.call("POST", "/v1/topics/orders/jobs?delay=1h", b"x").status == 507, 10, 0.05)
        reader = Reader("full", server)
        eventually(lambda: client.call("GET", "/readyz").status == 503, 10, 0.05)
        reader.type(CRITICAL, r"the store is full: pushes are rejected.*full")
        reader.type(0, r"Filesystem +.*Avail")
        reader.type(0, r"orders +1 ")
        redis.client().config_set("maxmemory", 0)
        eventually(lambda: client.call("GET", "/readyz").status == 200, 20, 0.05)
        reader.type(0, r"^ok\n$")
        assert client.call("POST", "/v1/topics/orders/jobs?delay=1h", b"x").status == 201 and reports_well(server)
        reader.end()


def redis_away(place, mind):
    with RedisServer() as redis:
        server = mind(Server(place / "server", ["--store", redis.url, "--shards", "1", "--store-timeout", "1s"])).start()
        server.client().push("orders", "a", delay="1h")
        redis.kill()
        eventually(lambda: server.cli("status").returncode == CRITICAL, 20, 0.1)
        reader = Reader("redis-away", server)
        assert server.client().call("POST", "/v1/topics/orders/jobs", b"x").status == 503 and "redis cannot be reached" in server.log()
        reader.type(CRITICAL, r"redis_away.*Redis cannot be reached")
        reader.type(0, r"^tarry_redis_shards 1\ntarry_redis_shards_up 0\n$")
        redis.start()
        eventually(lambda: reports_well(server), 20, 0.1)
        assert "redis can be reached again" in server.log()
        reader.end()


def database_away(place, mind):
    with PostgresServer() as database:
        server = mind(Server(place / "server", ["--store", database.url, "--migrate"])).start()
        server.client().push("orders", "a", delay="1h")
        database.stop()
        eventually(lambda: server.cli("status").returncode == CRITICAL, 20, 0.1)
        reader = Reader("database-away", server)
        reader.type(CRITICAL, r"store_failed")
        reader.type(0, r"^tarry_sql_up 0\n$")
        assert "the database cannot be reached" in server.log()
        database.start()
        eventually(lambda: reports_well(server), 20, 0.1)
        reader.end()


def bloat(place, mind):
    with PostgresServer() as database:
        server = mind(Server(place / "server", ["--store", database.url, "--migrate"])).start()
        reader = Reader("bloat", server)
        with contextlib.closing(database.connect()) as holder, holder.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
            eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds", 0) > 1, 30)
            reader.type(0, r"^tarry_sql_oldest_transaction_seconds [1-9][^ ]*\ntarry_sql_dead_rows \d+\n$")
        eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds") < 1, 30)
        reader.end()


def clock(place, mind):
    house = House(place)
    mind(house.server)
    house.client.push("orders", "a", delay="1h")
    house.clock.step(-90_000)
    house.client.push("orders", "b", delay="1h")
    reader = Reader("clock", house.server)
    assert "wall clock stepped" in house.server.log()
    reader.type(WARNINGS, r"clock +the clock was changed by 90 s")
    house.clock.sleep(601)
    assert reports_well(house.server)
    reader.end()


def background(place, mind):
    file = place / "tarry.conf"
    file.write_text("max-waiting = 10\n", encoding="utf-8")
    server = mind(Server(place / "server", [*FLAGS, "--config", str(file)])).start()
    file.write_text("max-waiting = nonsense\n", encoding="utf-8")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: not reports_well(server), 30, 0.1)
    reader = Reader("background", server)
    reader.type(WARNINGS, r"background +.*configuration")
    assert "configuration not read" in server.log()
    file.write_text("max-waiting = 11\n", encoding="utf-8")
    server.proc.send_signal(signal.SIGHUP)
    eventually(lambda: reports_well(server), 30, 0.1)
    reader.end()


def certificate(place, mind):
    authority = Authority(place)
    authority.sign("server", days=3)
    files = ("--tls-cert", str(authority.certificate("server")), "--tls-key", str(authority.key("server")))
    server = mind(Server(place / "server", [*FLAGS, *files, "--listen", "127.0.0.1:0,tls"])).start()
    reader = Reader("certificate", server, **{"/etc/tarry/tls.pem": str(authority.certificate("server"))})
    assert "certificate expires soon" in server.log()
    reader.type(WARNINGS, r"certificate +the certificate expires in [23] days")
    reader.type(0, r"^notAfter=\w{3} ")
    authority.sign("server", days=90)
    eventually(lambda: reports_well(server), 20, 0.1)
    assert server.log().count("certificate read") == 2
    reader.end()


def store(place, mind):
    server = mind(Server(place / "server", FLAGS)).start()
    client = server.client()
    client.push("orders", "a", delay="1h")
    server.data.rename(place / "elsewhere")
    assert client.call("PUT", "/v1/topics/orders/jobs/b?delay=1h", b"x").json()["code"] == "directory_moved"
    reader = Reader("store", server)
    reader.type(CRITICAL, r"store_failed +the data directory was moved")
    (place / "elsewhere").rename(server.data)
    eventually(lambda: client.call("GET", "/readyz").status == 200, 10, 0.05)
    assert reports_well(server)
    reader.end()


def down(place, mind):
    server = mind(Server(place / "server", FLAGS)).start()
    port = int(server.port)
    server.terminate()
    reader = Reader("down", server)
    reader.type(UNKNOWN, r"cannot reach")
    server.start(port)
    reader.type(0, r"^ok\n$")
    assert reports_well(server)
    reader.end()


CONDITIONS = [late, stuck, held, dead, full, redis_away, database_away, bloat, clock, certificate, store, down, background]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.__name__)
@pytest.mark.plain("the pages show a server on loopback, without token")
def test_commands_of_the_runbooks_print_their_output(condition, tmp_path):
    servers = []

    def mind(server):
        servers.append(server)
        return server

    try:
        condition(tmp_path, mind)
        for server in servers:
            for client in server._clients:
                client.close()
            assert server.terminate() == 0 and not server.sanitizer_report(), server.log()[-3000:]
    finally:
        for server in servers:
            if server.proc and server.alive:
                server.kill()


@pytest.mark.thorough("takes more than a minute")
@pytest.mark.plain("the script has tokens of its own")
def test_the_incidents_to_practise_with_are_reported():
    done = subprocess.run([REPO / "scripts/incident", "--once"], env={**os.environ, "TARRY_BIN": str(BINARY)}, capture_output=True, text=True, timeout=900, check=False)
    parts = "stuck target dead disk" if os.geteuid() == 0 else "stuck target dead"
    assert (done.returncode, done.stdout) == (0, f"reported: {parts}\n"), done.stderr


def test_each_page_is_typed():
    assert sorted(name.replace("-", "_") for name in NAMES) == sorted(one.__name__ for one in CONDITIONS)
