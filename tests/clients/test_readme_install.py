"""An empty project installs each client by the commands of its README, and runs the README's first example against a server.

TARRY_TEST_CLIENT=python picks one, see languages.py.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import languages
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

from server import Server  # noqa: E402

NEEDS = {"python": ["python3"], "node": ["node", "npm"], "go": ["go"], "java": ["java", "mvn"], "php": ["php", "composer"], "rust": ["cargo"], "ruby": ["ruby", "gem"]}
LANGUAGES = languages.chosen(NEEDS)


def blocks(language, kind):
    """The code blocks of this kind in the README of the client."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", (REPO / "clients" / language / "README.md").read_text(encoding="utf-8"), re.M | re.S)


class Here:
    """The project is on this machine. tests/fresh has a place in a bare Debian. Functions of a language write the program and return its command."""

    tree = REPO

    def __init__(self, path, env):
        self.path, self.inside, self.env = path, path, {**os.environ, "TARRY": str(REPO), **env}

    def run(self, *command):
        done = subprocess.run(command, cwd=self.path, env=self.env, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def write(self, name, text):
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text, encoding="utf-8")


def of_python(place):
    place.run("python3", "-m", "venv", ".")
    place.env["PATH"] = f"{place.inside}/bin:{place.env['PATH']}"
    place.write("main.py", blocks("python", "python")[0])
    return ["python", "main.py"]


def of_node(place):
    place.write("package.json", '{"name": "shop", "private": true, "type": "module"}')
    place.write("main.js", blocks("node", "ts")[0] + 'await client.cancel("orders", "1001");\n')
    return ["node", "main.js"]


def of_go(place):
    place.run("go", "mod", "init", "shop")
    imports, push = blocks("go", "go")[:2]
    place.write("main.go", f"""package main

{imports}
import (
	"context"
	"log"
	"time"
)

func main() {{
	ctx, order := context.Background(), map[string]int{{"order": 1001}}
{push}	if err != nil {{
		log.Fatal(err)
	}}
	if done, err := client.Cancel(ctx, "orders", pushed.ID); err != nil || !done {{
		log.Fatal(done, err)
	}}
}}
""")
    return ["go", "run", "."]


def of_java(place):
    (dependency,) = blocks("java", "xml")
    place.write("pom.xml", f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
  <properties><maven.compiler.release>11</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <dependencies>{dependency}</dependencies>
  <build><plugins><plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin></plugins></build>
</project>
""")
    push = blocks("java", "java")[0].replace("\n}", '\n    if (!client.cancel("orders", "1001")) throw new AssertionError();\n}')
    place.write("src/main/java/Main.java", f"import io.tarry.*;\nimport java.time.Duration;\nimport java.util.Map;\npublic class Main {{\npublic static void main(String[] arguments) {{\n{push}\n}}\n}}\n")
    jar = next(iter(re.findall("<version>(.*)</version>", dependency)))
    return ["bash", "-c", f"mvn -q -B compiler:compile && java -cp target/classes:$HOME/.m2/repository/io/tarry/tarry-client/{jar}/tarry-client-{jar}.jar Main"]


def of_php(place):
    """Without the registry of Composer, which the client does not need."""
    place.env |= {"COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_NO_INTERACTION": "1", "COMPOSER_HOME": str(place.inside / "home")}
    place.write("home/config.json", json.dumps({"repositories": {"packagist.org": False}}))
    place.run("composer", "init", "--quiet", "--name=shop/worker")
    place.write("main.php", "<?php\nrequire 'vendor/autoload.php';\n" + blocks("php", "php")[0])
    return ["php", "main.php"]


def of_rust(place):
    """With the dependencies that the client's own build has."""
    place.env |= {"CARGO_TARGET_DIR": str(place.tree / "clients/rust/target"), "CARGO_TERM_QUIET": "true"}
    place.run("cargo", "init", "--name", "shop", "--vcs", "none")
    place.write("Cargo.lock", (REPO / "clients/rust/Cargo.lock").read_text(encoding="utf-8"))
    push = "\n".join(f"    {line}" for line in blocks("rust", "rust")[0].splitlines())
    place.write("src/main.rs", f"use std::time::Duration;\n\nfn main() -> Result<(), tarry::Error> {{\n{push}\n    Ok(())\n}}\n")
    return ["cargo", "run"]


def of_ruby(place):
    place.env["GEM_HOME"] = str(place.inside / "gems")
    place.write("main.rb", blocks("ruby", "ruby")[0])
    return ["ruby", "main.rb"]


PROJECTS = {"python": of_python, "node": of_node, "go": of_go, "java": of_java, "php": of_php, "rust": of_rust, "ruby": of_ruby}


def install_and_run(language, place, server):
    """Types the commands of the README in the empty project, then runs its first example against the server."""
    place.env["TARRY_URL"] = server.url
    program = PROJECTS[language](place)
    place.run("bash", "-euc", blocks(language, "sh")[0])
    place.run(*program)
    totals = server.client().topic("orders")["totals"]
    assert (totals["pushed"], totals["cancelled"]) == (1, 1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_commands_of_the_readme_install_the_client_in_an_empty_project(language, tmp_path):
    if lacking := [program for program in NEEDS[language] if not shutil.which(program)]:
        pytest.skip(f"not run: the client '{language}', {', '.join(lacking)} is not installed")
    place = tmp_path / "shop"
    place.mkdir()
    server = Server(tmp_path / "server").start()
    try:
        install_and_run(language, Here(place, {}), server)
    finally:
        server.terminate()
