"""
Runs the example of docs/sql.md for each framework, unchanged, in a program of that framework on a real PostgreSQL: rolled back means never there,
committed means delivered.

    python3 tests/e2e/support/sql_frameworks.py [NAME...]

A framework that is not installed is reported as not tried. SQLAlchemy, Django and Laravel come from Debian (python3-sqlalchemy, python3-django,
php-laravel-framework with php-pgsql); the libraries of Go, Knex and Spring come from their registries, into a temporary directory.
Exit code 1: an example that was tried does not do what the page promises.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

sys.path[:0] = [str(pathlib.Path(__file__).parent)]

from postgres import PostgresServer  # noqa: E402
from server import BINARY, REPO, Server, free_port  # noqa: E402

PAGE = (REPO / "docs/sql.md").read_text(encoding="utf-8")
ORDERS = "CREATE TABLE orders (id int PRIMARY KEY)"


class TcpPostgres(PostgresServer):
    """A database on TCP, because not every driver supports Unix sockets."""

    def __init__(self):
        self.port = free_port()
        super().__init__("listen_addresses=127.0.0.1", f"port={self.port}")

    @property
    def url(self):
        return f"postgres://tarry@127.0.0.1:{self.port}/postgres"

    def connect(self, user="tarry"):
        import psycopg2
        return psycopg2.connect(host="127.0.0.1", port=self.port, user=user, dbname="postgres")


def snippet(name):
    """The code under the bold heading, without its delay."""
    found = re.search(rf"\*\*{re.escape(name)}\*\*.*?\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"docs/sql.md shows nothing for {name}"
    return found.group(1).replace("30 minutes", "0 minutes")


def run(command, directory, **env):
    done = subprocess.run(command, cwd=directory, env={**os.environ, **env}, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def within(code, line):
    """The line after the last one, as far in as that is."""
    last = code.rstrip("\n").split("\n")[-1]
    return code.rstrip("\n") + "\n" + " " * (len(last) - len(last.lstrip())) + line + "\n"


# ---- each: a program that does what the page shows for `order`, and fails inside the transaction where `fails` ----

def sqlalchemy(directory, database, order, fails):
    code = snippet("SQLAlchemy")
    program = f"""from sqlalchemy import create_engine, text
engine = create_engine("postgresql+psycopg2://tarry@127.0.0.1:{database.port}/postgres")
order = {order}
try:
{textwrap.indent(within(code, "raise KeyError" if fails else "pass"), "    ")}
except KeyError:
    pass
"""
    run(["/usr/bin/python3", "-c", program], directory)


def django(directory, database, order, fails):
    code = snippet("Django")
    program = f"""import django
from django.conf import settings
settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "tarry", "HOST": "127.0.0.1", "PORT": {database.port}}}}})
django.setup()
from django.db import connection, transaction
order = {order}
try:
{textwrap.indent(within(code, "raise KeyError" if fails else "pass"), "    ")}
except KeyError:
    pass
"""
    run(["/usr/bin/python3", "-c", program], directory)


def go(directory, database, order, fails):
    code = snippet("Go").replace("tx.Commit()", "tx.Rollback()" if fails else "tx.Commit()")
    (directory / "main.go").write_text(f"""package main
import ("context"; "database/sql"; "log"; _ "github.com/lib/pq")
func work(ctx context.Context, db *sql.DB, order int) error {{
{code}}}
func main() {{
    db, err := sql.Open("postgres", "{database.url}?sslmode=disable")
    if err == nil {{ err = work(context.Background(), db, {order}) }}
    if err != nil {{ log.Fatal(err) }}
}}
""", encoding="utf-8")
    if not (directory / "go.mod").exists():
        run(["go", "mod", "init", "tried"], directory)
        run(["go", "get", "github.com/lib/pq"], directory)
    run(["go", "run", "."], directory)


def knex(directory, database, order, fails):
    code = snippet("Knex").replace("\n})", "\n  throw new Error('rolled back')\n})" if fails else "\n})")
    if not (directory / "node_modules").exists():
        run(["npm", "install", "--no-audit", "--no-fund", "knex", "pg"], directory)
    (directory / "main.mjs").write_text(f"""import create from 'knex'
const knex = create({{ client: 'pg', connection: '{database.url}' }})
const order = {order}
try {{
{code}
}} catch (error) {{ if (error.message !== 'rolled back') throw error }}
await knex.destroy()
""", encoding="utf-8")
    run(["node", "main.mjs"], directory)


def laravel(directory, database, order, fails):
    code = snippet("Laravel").replace("\n});", "\n    throw new Exception('rolled back');\n});" if fails else "\n});")
    (directory / "main.php").write_text(f"""<?php
require '/usr/share/php/Illuminate/autoload.php';
$capsule = new Illuminate\\Database\\Capsule\\Manager;
$capsule->addConnection(['driver' => 'pgsql', 'host' => '127.0.0.1', 'port' => {database.port}, 'database' => 'postgres', 'username' => 'tarry']);
$capsule->setAsGlobal();
class_alias('Illuminate\\Database\\Capsule\\Manager', 'DB');
$order = {order};
try {{
{code}}} catch (Exception $error) {{ if ($error->getMessage() !== 'rolled back') throw $error; }}
""", encoding="utf-8")
    run(["php", "main.php"], directory)


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tried</groupId><artifactId>tried</artifactId><version>1</version>
<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencyManagement><dependencies><dependency><groupId>org.springframework.boot</groupId><artifactId>spring-boot-dependencies</artifactId>
<version>3.5.7</version><type>pom</type><scope>import</scope></dependency></dependencies></dependencyManagement>
<dependencies><dependency><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-jdbc</artifactId></dependency>
<dependency><groupId>org.postgresql</groupId><artifactId>postgresql</artifactId></dependency></dependencies></project>
"""


def spring(directory, database, order, fails):
    code = snippet("Spring")
    code = re.sub(r"\}\s*$", ("    throw new IllegalStateException(\"rolled back\");\n}" if fails else "}"), code)
    source = directory / "src/main/java/tried"
    source.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(POM, encoding="utf-8")
    (source / "Tried.java").write_text(f"""package tried;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

@SpringBootApplication
public class Tried {{
    @Service
    public static class Orders {{
        private final JdbcTemplate jdbc;
        public Orders(JdbcTemplate jdbc) {{ this.jdbc = jdbc; }}
{textwrap.indent(code, "        ")}
    }}
    public static void main(String[] arguments) {{
        try (var context = SpringApplication.run(Tried.class, arguments)) {{
            context.getBean(Orders.class).open({order});
        }} catch (IllegalStateException rolledBack) {{
            if (!"rolled back".equals(rolledBack.getMessage())) throw rolledBack;
        }}
    }}
}}
""", encoding="utf-8")
    run(["mvn", "-q", "-B", "compile"], directory)
    if not (directory / "classpath").exists():
        run(["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], directory)
    classpath = f"target/classes:{(directory / 'classpath').read_text(encoding='utf-8')}"
    run(["java", "-cp", classpath, "tried.Tried", f"--spring.datasource.url=jdbc:postgresql://127.0.0.1:{database.port}/postgres",
         "--spring.datasource.username=tarry"], directory)


def has_module(name):
    return subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


FRAMEWORKS = {
    "SQLAlchemy": (sqlalchemy, lambda: has_module("sqlalchemy")),
    "Django": (django, lambda: has_module("django")),
    "Go": (go, lambda: shutil.which("go")),
    "Knex": (knex, lambda: shutil.which("npm")),
    "Spring": (spring, lambda: shutil.which("mvn")),
    "Laravel": (laravel, lambda: os.path.exists("/usr/share/php/Illuminate/autoload.php") and shutil.which("php")),
}


def left_behind(database, client):
    """Orders, and jobs delivered for them."""
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM orders ORDER BY id")
        orders = [order for order, in cursor.fetchall()]
    jobs = client.take("orders", max=10, wait="5s" if orders else "0s")
    client.ack(*(job["lease"] for job in jobs)) if jobs else None
    return orders, [int(job["id"]) for job in jobs]


def tried(name, database, client, directory):
    database.do("TRUNCATE orders")
    directory.mkdir(exist_ok=True)
    FRAMEWORKS[name][0](directory, database, 1, True)
    assert left_behind(database, client) == ([], []), f"{name}: rolled back, and something is there"
    FRAMEWORKS[name][0](directory, database, 2, False)
    assert left_behind(database, client) == ([2], [2]), f"{name}: committed, and not delivered"


def main(names):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-frameworks-"))
    bad = 0
    try:
        with TcpPostgres() as database:
            subprocess.run([str(BINARY), "sql", "migrate", database.url], check=True, stdout=subprocess.DEVNULL)
            database.do(ORDERS)
            server = Server(directory / "server", ["--store", database.url]).start()
            for name in names or FRAMEWORKS:
                if not FRAMEWORKS[name][1]():
                    print(f"{name}: not tried, it is not installed")
                    continue
                try:
                    tried(name, database, server.client(), directory / name.lower())
                    print(f"{name}: rolled back means never there, committed means delivered", flush=True)
                except AssertionError as fault:
                    bad = 1
                    print(f"{name}: {fault}", flush=True)
            server.terminate()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
