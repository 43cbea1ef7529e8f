"""The first steps of a new developer on a bare Debian: the demo, then the tests, as an ordinary user and as root. A package that scripts/setup forgets fails here."""

import pathlib
import shutil
import tempfile

import pytest
from root import REPO, Root, lacks


def enabled(root):
    """The services, sockets and timers that start with the machine."""
    return set(root("{ find /etc/systemd/system -path '*.wants/*' -printf '%f\\n'; find /etc/rc[2-5].d -name 'S*' -printf '%f.service\\n' | cut -c 4-; } | sort -u").stdout.split())


@pytest.fixture(scope="module")
def fresh():
    why = lacks()
    assert why is None, why
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-fresh-", dir="/var/tmp"))
    directory.chmod(0o755)
    root = Root(directory / "root", REPO / "build-fresh" / "packages")
    try:
        root.make()
        root.enabled_at_first = enabled(root)
        yield root
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_the_demo_runs_as_the_first_command(fresh):
    answer = fresh("make demo").stdout
    assert "every order was delivered once, not early" in answer, answer


def test_the_groups_of_make_test_run_with_their_packages(fresh):
    fresh("scripts/setup build lint test")
    print(fresh("python3 tests/fresh/first_tests.py build lint test").stdout)
    fresh("scripts/check TEST=duration")


def test_the_other_groups_run_with_their_packages(fresh):
    fresh("scripts/setup build lint test_all")
    print(fresh("python3 tests/fresh/first_tests.py test test_all").stdout)


def test_root_can_run_the_tests(fresh):
    print(fresh("python3 tests/fresh/first_tests.py test test_all", user="root").stdout)


def test_no_service_starts_with_the_machine_because_a_test_needs_its_package(fresh):
    """Imitates a machine with systemd, which has this directory. Packages of services are removed and installed again."""
    fresh("scripts/setup test_all")
    units = enabled(fresh) - fresh.enabled_at_first
    assert {"postgresql.service", "mariadb.service", "epmd.socket", "phpsessionclean.timer"} <= units, units
    names, packages = {unit.removesuffix(".service") for unit in units}, set()
    for line in fresh("dpkg -S '/lib/systemd/system/*' '/etc/init.d/*'", check=False).stdout.splitlines():
        package, _, place = line.partition(": ")
        if place.rpartition("/")[2].removesuffix(".service") in names and not package.startswith("systemd"):
            packages.add(package)
    fresh(f"sudo DEBIAN_FRONTEND=noninteractive apt-get purge -q -y {' '.join(sorted(packages))}")
    before = enabled(fresh)
    assert not before & {"postgresql.service", "mariadb.service", "epmd.socket", "phpsessionclean.timer"}, before
    fresh("sudo mkdir -p /run/systemd/system && scripts/setup test_all")
    assert enabled(fresh) == before, sorted(enabled(fresh) ^ before)
