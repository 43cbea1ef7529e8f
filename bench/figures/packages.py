"""Packages of other queues, fetched beside the build: once, and again when the list has changed."""

import pathlib
import shutil
import subprocess


def run(*command, **more):
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=900, **more)


def fetched(folder, wanted, fetch):
    """Returns the folder, filled by `fetch(folder)`; `wanted` is a text that lists its contents."""
    here = pathlib.Path(folder).resolve()
    stamp = here / "wanted"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir(parents=True)
        fetch(here)
        stamp.write_text(wanted)
    return here


def npm(folder, manifest):
    """The packages of a package.json, in `node_modules` there."""
    def fetch(here):
        shutil.copy(manifest, here / "package.json")
        run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel", "error", cwd=here)

    return fetched(folder, pathlib.Path(manifest).read_text(), fetch)


def maven(folder, pom):
    """The jars of a pom.xml."""
    def fetch(here):
        run("mvn", "-q", "-B", "-Dstyle.color=never", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={here}")

    return fetched(folder, pathlib.Path(pom).read_text(), fetch)
