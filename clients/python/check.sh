#!/usr/bin/env bash
# Types, unit tests, and the wheel: built, installed into an empty environment, and used against the server at TARRY_URL.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p build
[ -x build/tools/bin/mypy ] || { python3 -m venv build/tools && build/tools/bin/pip install -q --disable-pip-version-check mypy==1.18.2 pytest==8.4.2 build==1.3.0 "cryptography>=38"; }
build/tools/bin/mypy
PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 build/tools/bin/python -m pytest -q -p no:cacheprovider tests
build/tools/bin/python -m build --wheel --outdir build/dist . >/dev/null
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place"
"$place/bin/pip" install -q --disable-pip-version-check --no-index build/dist/tarry-*.whl
cd "$place"
bin/python - <<'PY'
import tarry

with tarry.Client() as client:
    client.push("wheel", {"order": 1001}, id="1001")
    (job,) = client.take("wheel", wait=5)
    assert (job.id, job.json(), client.ack(job.lease)) == ("1001", {"order": 1001}, [None])
print("the wheel works")
PY
