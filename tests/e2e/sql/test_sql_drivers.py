"""Drivers push a body as text, bytes and JSON: it is stored byte for byte, whatever types the driver sends. docs/sql.md documents each form."""

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pymysql
import pytest
from mariadb import MariadbServer
from server import free_port
from sql_frameworks import TcpPostgres
from sql_serving import migrated, tarry

TEXT = "C:\\dir\\new 'a' \"b\" ü\nline\\000"
BYTES = b"\x00\xff\\x41'\n"
JSON = {"p": "C:\\dir"}
WANTED = {"text": (TEXT.encode(), None), "at": (TEXT.encode(), None), "late": (TEXT.encode(), None), "bytes": (BYTES, None), "json": (b'{"p": "C:\\\\dir"}', "application/json")}
# Id and body are parameters; the texts and the bytes are in the environment.
FORMS = {"text": "tarry.push('o', {id}, body => {body})", "at": "tarry.push('o', {id}, at => '2031-01-01', body => {body})",
         "late": "tarry.push('o', {id}, interval '1 hour', {body})", "bytes": "tarry.push('o', {id}, NULL, {body})", "json": "tarry.push('o', {id}, NULL, {body}::jsonb)"}
ENVIRONMENT = {"T_TEXT": TEXT, "T_HEX": BYTES.hex(), "T_JSON": json.dumps(JSON)}
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tarry-tests" / "drivers"


def run(command, directory, **env):
    done = subprocess.run([str(word) for word in command], cwd=directory, env={**os.environ, **ENVIRONMENT, **env}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def fetched(name, command):
    """A directory with libraries of a registry, brought once; skips if the registry cannot be reached."""
    directory = CACHE / name
    if not (directory / "done").exists():
        directory.mkdir(parents=True, exist_ok=True)
        try:
            for words in command:
                subprocess.run(words, cwd=directory, capture_output=True, check=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"the registry does not serve the driver: {error}")
        (directory / "done").touch()
    return directory


def needs(*programs, file=None, module=None):
    missing = [program for program in programs if not shutil.which(program)]
    if missing or file and not pathlib.Path(file).exists() or module and not importlib.util.find_spec(module):
        pytest.skip(f"not installed: {', '.join([*missing, *filter(None, (file, module))])}")


def forms(ident, body):
    """Each statement, with the driver's own words for its two parameters."""
    return {name: "SELECT " + form.format(id=ident, body=body) for name, form in FORMS.items()}


def forms_with_cast(ident, body):
    """The same, for drivers that send bytes without a type."""
    return {**forms(ident, body), "bytes": forms(ident, body + "::bytea")["bytes"]}


# ---- PostgreSQL ----

def psycopg2_pushes(_, database):
    import psycopg2
    with contextlib.closing(psycopg2.connect(database.url)) as connection, connection.cursor() as cursor:
        for name, text in forms("%s", "%s").items():
            cursor.execute(text, (name, psycopg2.Binary(BYTES) if name == "bytes" else json.dumps(JSON) if name == "json" else TEXT))
        connection.commit()


def psycopg3_pushes(_, database):
    needs(module="psycopg")
    import psycopg
    with psycopg.connect(database.url) as connection:
        for name, text in forms("%s", "%s").items():
            connection.execute(text, (name, BYTES if name == "bytes" else json.dumps(JSON) if name == "json" else TEXT))


def jdbc_pushes(directory, database):
    jar = "/usr/share/java/postgresql.jar"
    needs("java", file=jar)
    cases = "".join(f'push(c, "{text}", "{name}");' for name, text in forms("?", "?").items())
    (directory / "Push.java").write_text("""import java.sql.*;
public class Push {
  static void push(Connection c, String text, String id) throws Exception {
    PreparedStatement s = c.prepareStatement(text);
    s.setString(1, id);
    if (id.equals("bytes")) s.setBytes(2, java.util.HexFormat.of().parseHex(System.getenv("T_HEX")));
    else s.setString(2, System.getenv(id.equals("json") ? "T_JSON" : "T_TEXT"));
    s.executeQuery();
  }
  public static void main(String[] a) throws Exception { Connection c = DriverManager.getConnection(a[0]); """ + cases + """ }
}
""", encoding="utf-8")
    run(["java", "-Dfile.encoding=UTF-8", "-cp", jar, "Push.java", f"jdbc:postgresql://127.0.0.1:{database.port}/postgres?user=tarry"], directory, LC_ALL="C.UTF-8")


def pgx_pushes(directory, database):
    needs("go")
    home = fetched("pgx", [["go", "mod", "init", "tried"], ["go", "get", "github.com/jackc/pgx/v5@v5.5.5"]])
    for name in ("go.mod", "go.sum"):
        shutil.copy(home / name, directory)
    cases = "".join(f'push(c, `{text}`, "{name}"); ' for name, text in forms_with_cast("$1", "$2").items())
    (directory / "main.go").write_text("""package main
import ("context"; "encoding/hex"; "log"; "os"; "github.com/jackc/pgx/v5")
func push(c *pgx.Conn, text string, id string) {
  var body any = os.Getenv("T_TEXT")
  if id == "json" { body = os.Getenv("T_JSON") }
  if id == "bytes" { body, _ = hex.DecodeString(os.Getenv("T_HEX")) }
  if _, err := c.Exec(context.Background(), text, id, body); err != nil { log.Fatal(id, err) }
}
func main() {
  c, err := pgx.Connect(context.Background(), os.Args[1])
  if err != nil { log.Fatal(err) }
  """ + cases + """
}
""", encoding="utf-8")
    run(["go", "run", ".", f"{database.url}?sslmode=disable"], directory)


def node_pushes(directory, database):
    needs("node", "npm")
    home = fetched("node", [["npm", "install", "--no-audit", "--no-fund", "pg@8"]])
    (directory / "node_modules").symlink_to(home / "node_modules")
    cases = json.dumps(forms_with_cast("$1", "$2"))
    (directory / "main.cjs").write_text(f"""const {{ Client }} = require('pg')
const bodies = {{ bytes: Buffer.from(process.env.T_HEX, 'hex'), json: process.env.T_JSON }}
;(async () => {{
  const client = new Client({{ connectionString: process.argv[2] }})
  await client.connect()
  for (const [id, text] of Object.entries({cases})) await client.query(text, [id, bodies[id] ?? process.env.T_TEXT])
  await client.end()
}})().catch((error) => {{ console.error(error); process.exit(1) }})
""", encoding="utf-8")
    run(["node", "main.cjs", database.url], directory)


def pdo_pushes(directory, database):
    needs("php", file="/usr/share/php8.2-pgsql")
    cases = "".join(f"push($c, {php(text)}, '{name}');\n" for name, text in forms_with_cast("?", "?").items())
    (directory / "main.php").write_text("""<?php
function push($c, $text, $id) {
    $s = $c->prepare($text);
    $s->bindValue(1, $id);
    if ($id === 'bytes') $s->bindValue(2, hex2bin(getenv('T_HEX')), PDO::PARAM_LOB);
    else $s->bindValue(2, getenv($id === 'json' ? 'T_JSON' : 'T_TEXT'));
    $s->execute();
}
$c = new PDO($argv[1], 'tarry', '', [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
""" + cases, encoding="utf-8")
    run(["php", "main.php", f"pgsql:host=127.0.0.1;port={database.port};dbname=postgres"], directory)


def php(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


POSTGRES = [psycopg2_pushes, psycopg3_pushes, jdbc_pushes, pgx_pushes, node_pushes, pdo_pushes]


@pytest.fixture(scope="module")
def postgres():
    with migrated(TcpPostgres()) as server:
        yield server


@pytest.mark.parametrize("pushes", POSTGRES, ids=lambda pushes: pushes.__name__.removesuffix("_pushes"))
def test_body_that_a_driver_of_postgresql_pushes_is_stored_as_it_was_passed(postgres, tmp_path, pushes):
    postgres.do("SELECT count(tarry.cancel('o', id)) FROM unnest(%s) id", list(FORMS))
    pushes(tmp_path, postgres)
    stored = {ident: (bytes(body), kind) for ident, body, kind in postgres.rows(
        "SELECT j.id, j.body, convert_from(j.content_type, 'UTF8') FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = 'o'")}
    assert stored == WANTED


# ---- MariaDB ----

CALL = "CALL tarry.push('o', {id}, 3600000, {body}, @result)"


def pymysql_pushes(_, database):
    with contextlib.closing(pymysql.connect(host="127.0.0.1", port=database.port, user="root", charset="utf8mb4", autocommit=True)) as connection, connection.cursor() as cursor:
        for name, body in (("text", TEXT), ("bytes", BYTES)):
            cursor.execute(CALL.format(id="%s", body="%s"), (name, body))


def mysql_connector_pushes(directory, database):
    home = fetched("mysql-connector", [[sys.executable, "-m", "pip", "install", "-q", "--target", ".", "mysql-connector-python"]])
    program = f"""import os, mysql.connector
connection = mysql.connector.connect(host="127.0.0.1", port={database.port}, user="root", use_pure=True, autocommit=True, charset="utf8mb4", collation="utf8mb4_general_ci")
cursor = connection.cursor()
for name, body in (("text", os.environ["T_TEXT"]), ("bytes", bytes.fromhex(os.environ["T_HEX"]))):
    cursor.execute({CALL.format(id="%s", body="%s")!r}, (name, body))
"""
    run([sys.executable, "-c", program], directory, PYTHONPATH=str(home))


def mariadb_jdbc_pushes(directory, database):
    jar = "/usr/share/java/mariadb-java-client.jar"
    needs("java", file=jar)
    (directory / "Push.java").write_text("""import java.sql.*;
public class Push {
  public static void main(String[] a) throws Exception {
    Connection c = DriverManager.getConnection(a[0]);
    PreparedStatement s = c.prepareStatement(\"""" + CALL.format(id="?", body="?") + """\");
    s.setString(1, "text"); s.setString(2, System.getenv("T_TEXT")); s.execute();
    s.setString(1, "bytes"); s.setBytes(2, java.util.HexFormat.of().parseHex(System.getenv("T_HEX"))); s.execute();
  }
}
""", encoding="utf-8")
    run(["java", "-Dfile.encoding=UTF-8", "-cp", jar, "Push.java", f"jdbc:mariadb://127.0.0.1:{database.port}/?user=root"], directory, LC_ALL="C.UTF-8")


def mariadb_pdo_pushes(directory, database):
    needs("php", file="/usr/share/php8.2-mysql")
    (directory / "main.php").write_text("""<?php
$c = new PDO($argv[1], 'root', '', [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
foreach (['text' => getenv('T_TEXT'), 'bytes' => hex2bin(getenv('T_HEX'))] as $id => $body) {
    $s = $c->prepare(""" + php(CALL.format(id="?", body="?")) + """);
    $s->bindValue(1, $id);
    $s->bindValue(2, $body, $id === 'bytes' ? PDO::PARAM_LOB : PDO::PARAM_STR);
    $s->execute();
}
""", encoding="utf-8")
    run(["php", "main.php", f"mysql:host=127.0.0.1;port={database.port};charset=utf8mb4"], directory)


MARIADB = [pymysql_pushes, mysql_connector_pushes, mariadb_jdbc_pushes, mariadb_pdo_pushes]


@pytest.fixture(scope="module")
def mariadb():
    port = free_port()
    with MariadbServer("skip-networking=0", "bind-address=127.0.0.1", f"port={port}") as server:
        server.port = port
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


@pytest.mark.parametrize("pushes", MARIADB, ids=lambda pushes: pushes.__name__.removesuffix("_pushes"))
def test_body_that_a_driver_of_mariadb_pushes_is_stored_as_it_was_passed(mariadb, tmp_path, pushes):
    mariadb.do("DELETE FROM tarry.job")
    mariadb.do("DELETE FROM tarry.job_key")
    pushes(tmp_path, mariadb)
    assert {ident: bytes(body) for ident, body in mariadb.rows("SELECT id, body FROM tarry.job")} == {"text": TEXT.encode(), "bytes": BYTES}
