"""The rotation of the log and the audit file by logrotate, with the file of the package."""

import re
import subprocess

import pytest
from server import REPO, Server, eventually


@pytest.mark.thorough("needs logrotate")
def test_logrotate_rotates_the_log_and_the_audit(tmp_path):
    server = Server(tmp_path / "server", ["--log", str(tmp_path / "log"), "--audit", str(tmp_path / "audit")])
    server.log_path = tmp_path / "log"
    server.start()
    server.cli("pause", "orders")
    text = (REPO / "packaging/logrotate.conf").read_text(encoding="utf-8")
    text, count = re.subn(r"systemctl kill .*tarry.service", f"kill -HUP {server.proc.pid}", text.replace("/var/lib/tarry", str(tmp_path)))
    assert count == 1
    configuration = tmp_path / "logrotate.conf"
    configuration.write_text(re.sub(r"^ *su .*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
    configuration.chmod(0o644)
    subprocess.run(["/usr/sbin/logrotate", "--force", "--state", tmp_path / "state", configuration], check=True, timeout=30)
    assert "listening" in (tmp_path / "log.1").read_text(encoding="utf-8") and "orders" in (tmp_path / "audit.1").read_text(encoding="utf-8")
    eventually(lambda: "log reopened" in (tmp_path / "log").read_text(encoding="utf-8") if (tmp_path / "log").exists() else False)
    server.cli("resume", "orders")
    eventually(lambda: "orders" in (tmp_path / "audit").read_text(encoding="utf-8"))
    server.terminate()
