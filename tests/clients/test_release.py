"""Packages of scripts/release_clients: each can be used from an empty project. A missing language
is reported as not run.

TARRY_TEST_CLIENT=python picks one, see languages.py.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import zipfile

import languages
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
MADE = REPO / "build-package" / "clients"
VERSION = re.search(r"^project\(tarry VERSION ([0-9.]+) ", (REPO / "CMakeLists.txt").read_text(), re.M)[1]
NEEDS = {"python": ["python3"], "node": ["node", "npm"], "java": ["java", "javac", "mvn"], "php": ["php", "composer"], "rust": ["cargo"], "ruby": ["ruby", "gem"]}
LANGUAGES = languages.chosen(NEEDS)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def of_python(place):
    run("python3", "-m", "venv", place)
    run(place / "bin/pip", "install", "-q", "--no-index", MADE / "python" / f"tarry-{VERSION}-py3-none-any.whl")
    return run(place / "bin/python", "-c", "import tarry; tarry.Client().close(); print(tarry.__version__)", cwd=place)


def of_node(place):
    (place / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    run("npm", "install", "--silent", "--offline", MADE / "node" / f"tarry-client-{VERSION}.tgz", cwd=place)
    (place / "main.js").write_text("import { Client } from '@tarry/client';\nnew Client();\n")
    run("node", "main.js", cwd=place)
    return json.loads((place / "node_modules/@tarry/client/package.json").read_text())["version"]


def of_java(place):
    for artifact in ("tarry-client", "tarry-spring-boot"):
        folder = MADE / "java/io/tarry" / artifact / VERSION
        names = {f"{artifact}-{VERSION}{kind}" for kind in (".jar", ".pom", "-sources.jar", "-javadoc.jar")}
        assert {path.name for path in folder.iterdir()} == {name + end for name in names for end in ("", ".md5", ".sha1")}
    spring = set(zipfile.ZipFile(folder / f"tarry-spring-boot-{VERSION}.jar").namelist())
    assert {"io/tarry/spring/TarryListener.class", "META-INF/spring/org.springframework.boot.autoconfigure.AutoConfiguration.imports"} <= spring
    folder = MADE / "java/io/tarry/tarry-client" / VERSION
    (place / "Main.java").write_text("public class Main { public static void main(String[] a) { new io.tarry.Client().close(); } }")
    jar = folder / f"tarry-client-{VERSION}.jar"
    run("java", "-cp", jar, "Main.java", cwd=place)
    return re.search(r"tarry-client-(.*)\.jar", jar.name)[1]


def of_php(place):
    laravel = set(zipfile.ZipFile(MADE / "php" / f"tarry-laravel-{VERSION}.zip").namelist())
    assert {"composer.json", "src/TarryServiceProvider.php", "src/TarryQueue.php"} <= laravel
    package = json.loads((REPO / "clients/php/composer.json").read_text(encoding="utf-8"))
    package["dist"] = {"type": "zip", "url": f"file://{MADE}/php/tarry-client-{VERSION}.zip"}
    repositories = [{"type": "package", "package": package}, {"packagist.org": False}]
    (place / "composer.json").write_text(json.dumps({"repositories": repositories, "require": {"tarry/client": VERSION}}))
    run("composer", "install", "--quiet", "--no-interaction", cwd=place, env={**os.environ, "COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_HOME": str(place / "home")})
    run("php", "-r", "require 'vendor/autoload.php'; new Tarry\\Client();", cwd=place)
    return json.loads((place / "vendor/composer/installed.json").read_text())["packages"][0]["version"]


def of_rust(place):
    with tarfile.open(MADE / "rust" / f"tarry-{VERSION}.crate") as crate:
        names = set(crate.getnames())
        crate.extractall(place)
    assert {f"tarry-{VERSION}/{name}" for name in ("Cargo.toml", "README.md", "src/lib.rs")} <= names
    assert not any("conformance" in name for name in names)
    (place / "src").mkdir()
    (place / "src/main.rs").write_text("fn main() { tarry::Client::new().unwrap(); }")
    (place / "Cargo.toml").write_text(f'[package]\nname = "empty"\nedition = "2021"\n[dependencies]\ntarry = {{ path = "tarry-{VERSION}" }}\n')
    shutil.copy(REPO / "clients/rust/Cargo.lock", place)
    run("cargo", "run", "--quiet", cwd=place, env={**os.environ, "CARGO_TARGET_DIR": str(MADE / ".cargo")})
    return re.search(r'name = "tarry"\nversion = "(.*)"', (place / "Cargo.lock").read_text())[1]


def of_ruby(place):
    env = {**os.environ, "GEM_HOME": str(place / "gems")}
    run("gem", "install", "--silent", "--local", "--no-document", MADE / "ruby" / f"tarry-{VERSION}.gem", cwd=place, env=env)
    return run("ruby", "-e", "require 'tarry'; Tarry::Client.new.close; puts Tarry::VERSION", cwd=place, env=env)


USES = {"python": of_python, "node": of_node, "java": of_java, "php": of_php, "rust": of_rust, "ruby": of_ruby}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_package_can_be_used_from_an_empty_project(language, tmp_path):
    if lacking := [program for program in NEEDS[language] if not shutil.which(program)]:
        pytest.skip(f"not run: the package for '{language}', {', '.join(lacking)} is not installed")
    answer = run("scripts/release_clients", language, cwd=REPO)
    assert answer.lower().startswith(language), answer
    assert USES[language](tmp_path).strip() == VERSION


def test_another_version_is_refused(tmp_path):
    """A copy of the tree whose client has another version than the server."""
    for path in ("scripts/release_clients", "CMakeLists.txt", "CHANGELOG.md", "clients/php/composer.json", "clients/php/laravel/composer.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / path, tmp_path / path)
    if not shutil.which("composer"):
        pytest.skip("not run: composer is not installed")
    file = tmp_path / "clients/php/composer.json"
    file.write_text(file.read_text().replace(VERSION, "9.9.9"))
    done = subprocess.run([tmp_path / "scripts/release_clients", "php"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"has version '9.9.9' but the server has {VERSION}" in done.stderr
