"""The other queues on PostgreSQL: how River, db-scheduler, Quartz, graphile-worker and pgmq are fetched and driven."""

import json
import pathlib
import shutil
import subprocess
import sys
import zipfile

from . import packages

SQL = pathlib.Path(__file__).resolve().parents[1] / "sql"
PGMQ = "0.34.0-alpha.7"  # of the crate that brings the extension's SQL, 1.13.0
NEEDED = {"river": ("go",), "db-scheduler": ("javac", "mvn"), "quartz": ("javac", "mvn"), "graphile": ("node", "npm"), "pgmq": ("cargo",)}
LEFT = {"river": "river_job WHERE scheduled_at", "db-scheduler": "scheduled_tasks WHERE execution_time", "graphile": "graphile_worker._private_jobs WHERE run_at",
        "pgmq": "pgmq.q_orders WHERE vt"}
TITLES = {"river": "River", "db-scheduler": "db-scheduler", "quartz": "Quartz", "graphile": "graphile-worker", "pgmq": "pgmq"}


def fetched(build, name, wanted, fetch):
    return packages.fetched(place(build, name), wanted, fetch)


def place(build, name):
    return pathlib.Path(build) / "sql-peers" / name


def river(build):
    def fetch(here):
        packages.run("go", "build", "-o", here / "drive", ".", cwd=SQL / "river")

    here = fetched(build, "river", "".join((SQL / "river" / name).read_text() for name in ("go.mod", "main.go")), fetch)
    return [here / "drive"]


def jars(build):
    return packages.maven(place(build, "jars"), SQL / "java/pom.xml")


def java(build, program):
    libraries = jars(build)

    def fetch(here):
        packages.run("javac", "-cp", f"{libraries}/*", "-d", here, *sources)

    sources = sorted((SQL / "java").glob("*.java"))
    classes = fetched(build, "classes", "".join(source.read_text() for source in sources), fetch)
    return ["java", "-cp", f"{classes}:{libraries}/*", program]


def graphile(build):
    here = packages.npm(place(build, "graphile"), SQL / "graphile/package.json")
    return ["env", f"NODE_PATH={here}/node_modules", "NODE_ENV=production", "node", SQL / "graphile/drive.js"]


def pgmq_sql(build):
    """The file that makes pgmq's schema, out of the crate of its authors."""
    def fetch(here):
        (here / "src").mkdir()
        (here / "src/lib.rs").touch()
        (here / "Cargo.toml").write_text(f'[package]\nname = "bench"\nversion = "1.0.0"\n[dependencies]\npgmq = {{ version = "={PGMQ}", default-features = false }}\n[workspace]\n')
        packages.run("cargo", "fetch", "--quiet", cwd=here)
        found = subprocess.run(["cargo", "metadata", "--format-version", "1", "--offline"], cwd=here, check=True, capture_output=True, text=True).stdout
        manifest = next(package["manifest_path"] for package in json.loads(found)["packages"] if package["name"] == "pgmq")
        shutil.copy(pathlib.Path(manifest).parent / "src/install/embedded/sql/pgmq.sql", here)

    return fetched(build, "pgmq", PGMQ, fetch) / "pgmq.sql"


def schema(build, name):
    """SQL that a new database needs; empty where the peer's program makes its tables by itself."""
    if name == "pgmq":
        return pgmq_sql(build).read_text() + "; SELECT pgmq.create('orders')"
    if name == "quartz":
        with zipfile.ZipFile(next(jars(build).glob("quartz-*.jar"))) as jar:
            return jar.read("org/quartz/impl/jdbcjobstore/tables_postgres.sql").decode()
    return ""


def left_over(name):
    """SQL that removes what a run before has not done: what is due within the hour."""
    return f"DELETE FROM {LEFT[name]} < now() + interval '1 hour'"


def command(build, name):
    """Returns the beginning of the peer's command; its URL, setting, mode and numbers follow."""
    if name in ("db-scheduler", "quartz"):
        return java(build, {"db-scheduler": "DbScheduler", "quartz": "Quartz"}[name])
    if name == "pgmq":
        pgmq_sql(build)
        return [sys.executable, SQL / "pgmq/drive.py"]
    return {"river": river, "graphile": graphile}[name](build)


def present(build, wanted, print_line):
    """Returns {name: the command that begins a run} of the peers that can be measured; prints which cannot."""
    here = {}
    for name in wanted:
        missing = [program for program in NEEDED[name] if not shutil.which(program)]
        if missing:
            print_line(f"'{missing[0]}' is not installed, {TITLES[name]} is left out: see scripts/setup")
            continue
        try:
            here[name] = list(map(str, command(build, name)))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
            why = (problem.stderr or b"").decode(errors="replace").strip().splitlines()
            print_line(f"{TITLES[name]} cannot be fetched, it is left out: {why[-1] if why else problem}")
    return here


def url(name, directory, database):
    """Returns the URL of a database on a socket in that directory or, because Java has no such sockets, on the server's loopback port."""
    if name in ("db-scheduler", "quartz"):
        return f"jdbc:postgresql://127.0.0.1:{directory[1]}/{database}?user=tarry"
    return f"postgres:///{database}?host={directory[0]}&user=tarry"


class Drive:
    """A run of a peer's program: it prepares and prints `ready`; the answer begins the measurement, which ends with a line of JSON."""

    def __init__(self, words):
        self.words = words

    def measured(self, begin, end):
        with subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            self.process = program.pid
            try:
                line = program.stdout.readline()
                if line.strip() != "ready":
                    raise RuntimeError(f"{' '.join(self.words[-6:])}: {line} {program.stderr.read()[-1000:]}")
                begin()
                program.stdin.write("go\n")
                program.stdin.flush()
                answer = program.stdout.readline()
                end()
                program.stdin.close()
                if not answer:
                    raise RuntimeError(f"{' '.join(self.words[-6:])}: {program.stderr.read()[-1000:]}")
                program.wait(60)
                return json.loads(answer)
            finally:
                program.kill()
