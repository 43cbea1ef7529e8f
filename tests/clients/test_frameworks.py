"""The code of docs/frameworks.md, on the real frameworks: installed from PyPI into build-frameworks/ where they are not there yet."""

import base64
import hashlib
import hmac
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests" / "e2e" / "support")]

from server import Server, eventually, free_port  # noqa: E402

PLACE = REPO / "build-frameworks"
PYTHON = PLACE / "bin" / "python"
SECRET = "whsec_" + base64.b64encode(b"a secret of twenty-four b").decode()
MANAGE = "import sys\nfrom django.core.management import execute_from_command_line\nexecute_from_command_line(sys.argv)\n"
SETTINGS = """
import os
SECRET_KEY = "x"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["orders"]
ROOT_URLCONF = "urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
TARRY_URL, TARRY_SECRET = os.environ["TARRY_URL"], os.environ["TARRY_SECRET"]
"""
URLS = "from django.urls import path\nfrom orders import views\nurlpatterns = [path('callbacks/orders', views.close_order)]\n"
COMMITS = """
import django
django.setup()
from django.db import transaction
from orders.jobs import client, push_after_commit
try:
    with transaction.atomic():
        push_after_commit("orders", id="rolled-back")
        raise RuntimeError
except RuntimeError:
    pass
with transaction.atomic():
    push_after_commit("orders", {"order": 7}, id="7", delay=0.3)
    assert client.get("orders", "7") is None
assert client.get("orders", "7").state == "delayed" and client.get("orders", "rolled-back") is None
"""


@pytest.fixture(scope="module", autouse=True)
def frameworks():
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "django==5.2.19", "fastapi==0.165.0", "uvicorn==0.54.0"], check=True, timeout=300)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("frameworks")).start()
    yield found
    found.terminate()


@pytest.fixture
def project(tmp_path, server):
    """The page's files, and how a program is run beside them."""
    for path, code in re.findall(r"```python\n# (\S+)\n(.*?)```", (REPO / "docs" / "frameworks.md").read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code, encoding="utf-8")
    for name, text in (("manage.py", MANAGE), ("settings.py", SETTINGS), ("urls.py", URLS), ("commits.py", COMMITS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "TARRY_URL": server.url, "TARRY_SECRET": SECRET, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{REPO / 'clients' / 'python'}:{tmp_path}"}
    running = []

    def start(*command):
        log = open(tmp_path / f"{len(running)}.log", "w+", encoding="utf-8")
        running.append(subprocess.Popen([PYTHON, *command], cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT))
        return running[-1], pathlib.Path(log.name)

    yield start
    for one in running:
        one.kill()
        one.wait()


def call(port, path, body=b"", headers=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, headers=headers or {}, method="POST"), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, ""
    except OSError:
        return 0, ""


def signed(body):
    stamp = str(int(time.time()))
    digest = hmac.new(base64.b64decode(SECRET[6:]), f"m.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {"Webhook-Id": "m", "Webhook-Timestamp": stamp, "Webhook-Signature": "v1," + base64.b64encode(digest).decode(), "Tarry-Topic": "orders", "Tarry-Id": "9"}


def callbacks_are_verified(port):
    eventually(lambda: call(port, "/callbacks/orders")[0] == 401, 20, 0.05)
    assert call(port, "/callbacks/orders", b"other", signed(b"body"))[0] == 401
    status, text = call(port, "/callbacks/orders", b"body", signed(b"body"))
    assert status == 200 and "9" in text


def ends_well(process, log):
    process.terminate()
    assert process.wait(10) in (0, -15), log.read_text(encoding="utf-8")


def test_django(project):
    committed, log = project("commits.py")
    assert committed.wait(20) == 0, log.read_text(encoding="utf-8")
    worker, log = project("manage.py", "tarry_worker")
    eventually(lambda: "closing 7" in log.read_text(encoding="utf-8"), 20)
    assert "rolled-back" not in log.read_text(encoding="utf-8")
    worker.terminate()
    assert worker.wait(10) == 0
    port = free_port()
    project("manage.py", "runserver", "--noreload", f"127.0.0.1:{port}")
    callbacks_are_verified(port)


def test_fastapi(project, server):
    port = free_port()
    process, log = project("-m", "uvicorn", "app:app", "--port", str(port))
    callbacks_are_verified(port)
    assert call(port, "/orders/8?delay=0.3")[0] == 200
    eventually(lambda: "closing 8" in log.read_text(encoding="utf-8"), 20)
    ends_well(process, log)
    assert not any(server.client().topic("orders")["counts"].values())
