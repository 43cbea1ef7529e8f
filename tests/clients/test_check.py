"""Each client's own check, clients/*/check.sh, against a server: format, types, unit tests, and what its README shows from an empty project."""

import pathlib
import subprocess
import sys

import languages
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

from server import Server  # noqa: E402


@pytest.mark.parametrize("client", languages.chosen(sorted(path.parent.name for path in REPO.glob("clients/*/check.sh"))))
def test_check_of_client_passes(client, tmp_path, monkeypatch):
    server = Server(tmp_path / "server", ["--log-level", "info"]).start()
    try:
        monkeypatch.setenv("TARRY_URL", server.url)
        done = subprocess.run(["bash", str(REPO / "clients" / client / "check.sh")], capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    finally:
        server.terminate()
