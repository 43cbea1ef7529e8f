"""The packages for arm64, made by a cross compiler: installed by apt in a Debian for arm64, whose programs qemu runs. The server starts, and jobs go through by
HTTP and by the command line. Needs root. TARRY_TEST_PACKAGES=DIR: tries the packages of that directory instead of making them."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "tests/package"), str(REPO / "tests/e2e/support")]

from machine import SUITE, mirror, run  # noqa: E402
from server import free_port  # noqa: E402

EPOCH = "1700000000"
LIBRARIES = ("libc6", "libcurl4", "libuv1", "librdkafka1", "libssl3", "libnghttp2-14")
ALONE = ("unshare", "--mount", "--propagation", "private")  # what is mounted by the way ends with the command


def in_root(root, *command, **more):
    return run(*ALONE, "env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
               "chroot", root, *command, seconds=900, **more)


@pytest.fixture(scope="session")
def packages():
    """Makes the packages, as the owner of this tree."""
    if made := os.environ.get("TARRY_TEST_PACKAGES"):
        return {path.name.split("_")[0]: path for path in pathlib.Path(made).glob("*_arm64.deb")}
    place = REPO / "build-package-arm64"
    owner = REPO.stat().st_uid
    lowered = {"user": owner, "group": REPO.stat().st_gid, "extra_groups": []} if os.geteuid() == 0 and owner else {}
    environment = {**os.environ, "TARRY_NO_SETUP": "1", "SOURCE_DATE_EPOCH": EPOCH}
    for old in place.glob("*.deb"):
        old.unlink()
    done = subprocess.run(["make", "-s", "package", "ARCH=arm64"], cwd=REPO, env=environment, capture_output=True, text=True, check=False, timeout=1700, **lowered)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return {path.name.split("_")[0]: path for path in place.glob("*.deb")}


@pytest.fixture(scope="session")
def root(packages):
    """A Debian for arm64 with the packages. The downloaded base stays in build-package-arm64/ for the next time."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-arm64-", dir="/var/tmp"))
    directory.chmod(0o755)
    place, base = directory / "root", REPO / "build-package-arm64/base.tar"
    try:
        if not base.exists():
            run(*ALONE, "debootstrap", "--arch=arm64", "--variant=minbase", "--include=systemd-standalone-sysusers", SUITE, place, *mirror(), seconds=1700)
            run("tar", "-C", place, "-cf", f"{base}.part", ".")
            os.rename(f"{base}.part", base)
        else:
            place.mkdir()
            run("tar", "-C", place, "-xpf", base)
        shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
        for package in packages.values():
            shutil.copy(package, place / "root")
        in_root(place, "apt-get", "update", "-q")
        in_root(place, "apt-get", "install", "-q", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-unsafe-io", *(f"/root/{package.name}" for package in packages.values()))
        yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def server(root):
    """The installed server as its user, and its port."""
    port = free_port()
    in_root(root, "install", "-d", "-m", "700", "-o", "tarry", "-g", "tarry", "/var/lib/tarry")  # as the unit does
    process = subprocess.Popen([*ALONE, "chroot", str(root), "runuser", "-u", "tarry", "--", "tarry", "serve", "--data", "/var/lib/tarry", "--listen", f"127.0.0.1:{port}"],
                               env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}, start_new_session=True)
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < until, "the server did not start"
            time.sleep(0.2)
    yield port
    process.terminate()
    process.wait(60)


def test_packages_are_for_arm64_and_depend_on_the_linked_libraries(packages):
    assert set(packages) == {"tarry", "libtarry1", "libtarry-dev"}
    for package in packages.values():
        assert run("dpkg-deb", "-f", package, "Architecture").stdout.strip() == "arm64"
    depends = run("dpkg-deb", "-f", packages["tarry"], "Depends").stdout
    for library in LIBRARIES:
        assert library in depends, depends
    assert re.search(r"libc6 \(>= 2\.3\d\)", depends), depends


def test_the_list_of_parts_names_libraries_of_arm64_and_the_cross_compiler():
    [path] = (REPO / "build-package-arm64").glob("*.spdx.json")
    packages = json.loads(path.read_text(encoding="utf-8"))["packages"]
    places = {package["name"]: package.get("externalRefs", [{}])[0].get("referenceLocator", "") for package in packages}
    assert "gcc-aarch64-linux-gnu" in places and "arch=arm64" in places["libuv1"] and "arch=arm64" in places["libc6"]


def test_installed_program_runs_and_its_manual_is_there(root):
    assert in_root(root, "tarry", "version").stdout.startswith("tarry 1.")
    assert in_root(root, "uname", "-m").stdout.strip() == "aarch64"
    assert (root / "usr/share/man/man1/tarry.1.gz").exists() and (root / "usr/share/man/man3/tarry.3.gz").exists()
    assert in_root(root, "id", "-u", "tarry").stdout.strip().isdigit()


def test_a_job_goes_through_by_curl_and_by_the_command_line(root, server):
    base = f"http://127.0.0.1:{server}/v1"
    pushed = run("curl", "-sf", "-X", "PUT", f"{base}/topics/orders/jobs/1?delay=1s", "-H", "Content-Type: application/json", "-d", '{"total":12}')
    assert json.loads(pushed.stdout)["id"] == "1"
    taken = json.loads(run("curl", "-sf", "-X", "POST", f"{base}/topics/orders/take?wait=20s").stdout)
    [job] = taken["jobs"]
    assert job["id"] == "1" and job["body"] == {"total": 12}
    run("curl", "-sf", "-X", "POST", f"{base}/ack", "-H", "Content-Type: application/json", "-d", json.dumps({"leases": [job["lease"]]}))
    tarry = ("env", f"TARRY_URL=http://127.0.0.1:{server}", "tarry")
    in_root(root, *tarry, "push", "orders", "2", "--delay", "1s", "--body", "paid?")
    taken = in_root(root, *tarry, "take", "orders", "--wait", "20s", "--json").stdout
    assert '"id":"2"' in taken.replace(" ", ""), taken
    assert "orders" in in_root(root, *tarry, "topics").stdout


def test_the_library_links_and_runs_there(root, packages):
    """The example of the package, by the cross compiler, against the installed files."""
    libraries = root / "usr/lib/aarch64-linux-gnu"
    for kind, words in (("shared", ["-ltarry"]), ("static", [libraries / "libtarry.a", "-l:libuv.so.1", "-l:libxxhash.so.0"])):
        program = root / f"root/{kind}"
        run("aarch64-linux-gnu-gcc", f"--sysroot={REPO}/build-sysroot", f"-I{root}/usr/include", f"-L{libraries}", f"-Wl,-rpath-link={libraries}",
            REPO / "examples/c/order_timeout.c", *words, "-pthread", "-o", program)
        assert "order 1002 closed: not paid in time" in in_root(root, f"/root/{kind}", "0.5").stdout
