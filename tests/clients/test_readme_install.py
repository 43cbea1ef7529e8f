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


def run(command, place, env):
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def of_python(place, env):
    run(["python3", "-m", "venv", "."], place, env)
    env["PATH"] = f"{place}/bin:{env['PATH']}"
    (place / "main.py").write_text(blocks("python", "python")[0])
    return ["python", "main.py"]


def of_node(place, env):
    (place / "package.json").write_text('{"name": "shop", "private": true, "type": "module"}')
    (place / "main.js").write_text(blocks("node", "ts")[0] + 'await client.cancel("orders", "1001");\n')
    return ["node", "main.js"]


def of_go(place, env):
    run(["go", "mod", "init", "shop"], place, env)
    imports, push = blocks("go", "go")[:2]
    (place / "main.go").write_text(f"""package main

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


def of_java(place, env):
    (dependency,) = blocks("java", "xml")
    (place / "pom.xml").write_text(f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
  <properties><maven.compiler.release>11</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <dependencies>{dependency}</dependencies>
  <build><plugins><plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin></plugins></build>
</project>
""")
    source = place / "src/main/java/Main.java"
    source.parent.mkdir(parents=True)
    push = blocks("java", "java")[0].replace("\n}", '\n    if (!client.cancel("orders", "1001")) throw new AssertionError();\n}')
    source.write_text(f"import io.tarry.*;\nimport java.time.Duration;\nimport java.util.Map;\npublic class Main {{\npublic static void main(String[] arguments) {{\n{push}\n}}\n}}\n")
    jar = next(iter(re.findall("<version>(.*)</version>", dependency)))
    found = pathlib.Path.home() / f".m2/repository/io/tarry/tarry-client/{jar}/tarry-client-{jar}.jar"
    return ["bash", "-c", f"mvn -q -B compiler:compile && java -cp target/classes:{found} Main"]


def of_php(place, env):
    """Without the registry of Composer, which the client does not need."""
    env |= {"COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_NO_INTERACTION": "1", "COMPOSER_HOME": str(place / "home")}
    (place / "home").mkdir()
    (place / "home" / "config.json").write_text(json.dumps({"repositories": {"packagist.org": False}}))
    run(["composer", "init", "--quiet", "--name=shop/worker"], place, env)
    (place / "main.php").write_text("<?php\nrequire 'vendor/autoload.php';\n" + blocks("php", "php")[0])
    return ["php", "main.php"]


def of_rust(place, env):
    """With the dependencies that the client's own build has."""
    env |= {"CARGO_TARGET_DIR": str(REPO / "clients/rust/target"), "CARGO_TERM_QUIET": "true"}
    run(["cargo", "init", "--name", "shop", "--vcs", "none"], place, env)
    shutil.copy(REPO / "clients/rust/Cargo.lock", place)
    push = "\n".join(f"    {line}" for line in blocks("rust", "rust")[0].splitlines())
    (place / "src/main.rs").write_text(f"use std::time::Duration;\n\nfn main() -> Result<(), tarry::Error> {{\n{push}\n    Ok(())\n}}\n")
    return ["cargo", "run"]


def of_ruby(place, env):
    env["GEM_HOME"] = str(place / "gems")
    (place / "main.rb").write_text(blocks("ruby", "ruby")[0])
    return ["ruby", "main.rb"]


PROJECTS = {"python": of_python, "node": of_node, "go": of_go, "java": of_java, "php": of_php, "rust": of_rust, "ruby": of_ruby}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_commands_of_the_readme_install_the_client_in_an_empty_project(language, tmp_path):
    if lacking := [program for program in NEEDS[language] if not shutil.which(program)]:
        pytest.skip(f"not run: the client '{language}', {', '.join(lacking)} is not installed")
    place = tmp_path / "shop"
    place.mkdir()
    server = Server(tmp_path / "server").start()
    try:
        env = {**os.environ, "TARRY": str(REPO), "TARRY_URL": server.url}
        program = PROJECTS[language](place, env)
        run(["bash", "-euc", blocks(language, "sh")[0]], place, env)
        run(program, place, env)
        totals = server.client().topic("orders")["totals"]
        assert (totals["pushed"], totals["cancelled"]) == (1, 1)
    finally:
        server.terminate()
