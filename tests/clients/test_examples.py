"""Each example of examples/ works as documented, against the server that TARRY_BIN names. A missing language is reported as not run.

TARRY_TEST_CLIENT=python picks one, see languages.py.
"""

import functools
import os
import subprocess
import sys

import examples
import languages
import pytest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", "e2e", "support")]

from server import Server  # noqa: E402

DELAY_S = 0.5
LANGUAGES = languages.chosen(examples.LANGUAGES)


@functools.cache
def built(name):
    """Returns None, or the reason why the language cannot be tested."""
    language = examples.LANGUAGES[name]
    if lacking := language.lacking():
        return f"not run: the examples for '{name}', {', '.join(lacking)} is not installed"
    if language.build:
        subprocess.run(language.build, cwd=examples.REPO / language.folder, check=True, timeout=600)
    return None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("examples")).start()
    yield found
    found.terminate()


@pytest.mark.parametrize("example", examples.LINES)
@pytest.mark.parametrize("name", LANGUAGES)
def test_prints_its_steps(name, example, server):
    if why := built(name):
        pytest.skip(why)
    language = examples.LANGUAGES[name]
    env = {key: value for key, value in os.environ.items() if not key.startswith("TARRY_")}
    found = subprocess.run([*language.command_for(example), str(DELAY_S), *examples.ARGUMENTS.get(example, [])], cwd=examples.REPO / language.folder, env={**env, **language.env, "TARRY_URL": server.url},
                           capture_output=True, text=True, timeout=120, check=False)
    assert (found.stdout.splitlines(), found.returncode) == (examples.LINES[example], 0), found.stderr
    topic = {"order_timeout": "orders", "call_retry": "calls", "reminder": "reminders", "debounce": "reindex", "import_report": "reports", "checkout": "mail"}[example]
    counts = server.client().topic(topic)["counts"]
    assert not any(counts.values()), f"left behind: {counts}"


@pytest.mark.parametrize("name", LANGUAGES)
def test_has_no_other_example(name):
    """Checks that each file there is tried, or is a part of a build."""
    folder = examples.REPO / examples.LANGUAGES[name].folder
    tried = {spelling.lower() for example in examples.LINES for spelling in (example, example.replace("_", "-"), example.replace("_", ""))}
    found = {path.stem.lower() for path in folder.rglob("*") if path.suffix in (".py", ".go", ".java", ".php", ".mjs", ".ts", ".rs", ".rb") and "node_modules" not in path.parts and "vendor" not in path.parts}
    assert found <= tried | {"main"}, found - tried
