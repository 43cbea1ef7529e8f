"""The pictures of the console in the documentation: a script draws them from realistic data, and the pages show each of them."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess

import pytest
from server import BINARY, REPO

pytestmark = pytest.mark.plain("a browser does not know the certificate of a test")
SCRIPT, DOCS = REPO / "scripts" / "pictures", REPO / "docs"
BYTES_MAX, TOTAL_MAX = 160_000, 900_000


def pages():
    loader = importlib.machinery.SourceFileLoader("pictures", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("pictures", loader))
    loader.exec_module(module)
    return [name for name, _, _ in module.PAGES]


def test_the_script_has_each_page():
    modules = re.findall(r'^    (\w+): \(\) => import\(', (REPO / "console" / "main.js").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(modules) > 10 and set(modules) - {"overview"} <= set(pages())


def sizes(directory):
    return {path.name: path.stat().st_size for path in (directory / "console.png", *sorted((directory / "console").iterdir()))}


def test_the_script_draws_each_page(tmp_path):
    out = tmp_path / "out"
    subprocess.run([SCRIPT, "--seconds", "2", str(out)], check=True, timeout=300, env={**os.environ, "TARRY_BIN": str(BINARY)})
    drawn = sizes(out)
    assert set(drawn) == {"console.png", *(f"{name}.webp" for name in pages())}
    assert all(5_000 < size < BYTES_MAX for size in drawn.values()), drawn
    assert len({(out / "console" / f"{name}.webp").read_bytes() for name in pages()}) == len(pages()), "two pages look the same"


def test_the_documentation_shows_each_picture_and_they_are_small():
    kept = sizes(DOCS)
    assert set(kept) == {"console.png", *(f"{name}.webp" for name in pages())}, "draw them again: scripts/pictures"
    assert max(kept.values()) < BYTES_MAX and sum(kept.values()) < TOTAL_MAX, kept
    text = (DOCS / "console.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[[^\]]+\]\((console(?:\.png|/[\w-]+\.webp))\)", text))
    assert shown == {"console.png", *(f"console/{name}.webp" for name in pages())}
