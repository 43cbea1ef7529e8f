"""The package, as an operator meets it: made without rights, installed, upgraded at work, removed, purged; backup and restore as docs/operations shows them.

In this order, on one machine: each step finds what the one before it left."""

import hashlib
import json
import os
import pathlib
import pwd
import re
import shutil
import time

import pytest
from conftest import REPO, Builder
from machine import run

JOBS = 50
[VERSION] = re.findall(r"^project\(tarry VERSION ([0-9.]+)", (REPO / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)
ABSOLUTE = ("/etc/tarry", "/lib/systemd/system/tarry.service", "/lib/systemd/system/tarry.socket", "/usr/lib/sysusers.d/tarry.conf", "/usr/bin/tarry", "/usr/share/doc/tarry")


def operations():
    """Returns all pages on operation."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((REPO / "docs/operations").glob("*.md")))


def documented(name):
    """The commands below `<!-- machine: name -->` in docs/operations."""
    page = operations()
    [block] = re.findall(rf"<!-- machine: {name} -->\n```sh\n(.*?)```", page, re.DOTALL)
    return block


def push(machine, topic, count=JOBS, delay="1h"):
    machine(f"for id in $(seq {count}); do tarry push {topic} $id --delay {delay} --body \"order $id\"; done")


def pending(machine, topic):
    done = machine(f"tarry list {topic} --json", check=False)
    assert done.returncode == 0 or "not_found" in done.stderr, done.stderr
    return done.stdout.count('"id":')


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "in vain"
        time.sleep(0.1)


def show(machine, name):
    return machine(f"systemctl show tarry -p {name} --value").stdout.strip()


def is_served(machine):
    return machine("tarry topics", check=False).returncode == 0


def test_every_documented_block_is_run_here():
    page = operations()
    here = pathlib.Path(__file__).read_text(encoding="utf-8")
    for name in re.findall(r"<!-- machine: (\w+) -->", page):
        assert f'documented("{name}")' in here or f"documented('{name}')" in here, name


# ---- made without rights ----

def test_a_user_makes_the_package_and_nothing_outside_of_the_tree(builder, packages):
    before = {path: os.path.exists(path) and os.stat(path).st_mtime_ns for path in ABSOLUTE}
    builder("make", "package", "RELEASE=2")
    assert {path: os.path.exists(path) and os.stat(path).st_mtime_ns for path in ABSOLUTE} == before
    assert [path.name.split("_")[1] for path in packages] == [f"{VERSION}-1", f"{VERSION}-2"]
    assert all(path.stat().st_uid == builder.user.pw_uid for path in packages)


def test_lintian_finds_neither_errors_nor_warnings(builder, packages):
    done = builder("lintian", "--fail-on", "error,warning", packages[0])
    assert not re.search("^[EW]:", done.stdout, re.MULTILINE), done.stdout


def test_the_package_depends_on_the_linked_libraries(packages):
    depends = run("dpkg-deb", "-f", packages[0], "Depends").stdout
    for library in ("libc6", "libcurl4", "libuv1", "librdkafka1", "libssl3"):
        assert library in depends


def test_without_dpkg_dev_no_package_is_built(builder):
    tools = builder.home / "tools"
    tools.mkdir()
    for tool in ("bash", "dirname", "git", "date", "sed", "cat", "dpkg-deb", "strip", "cmake", "ninja"):
        (tools / tool).symlink_to(shutil.which(tool))
    done = builder("bash", "scripts/package", check=False, PATH=str(tools))
    assert done.returncode == 1 and "no 'dpkg-shlibdeps'" in done.stderr and "apt-get install dpkg-dev" in done.stderr


def test_the_archive_runs_after_unpacking_and_has_unit_and_configuration(builder):
    [archive] = (builder.tree / "build-package").glob("*.tar.gz")
    place = builder.home / "unpacked"
    builder("mkdir", place)
    builder("tar", "-C", place, "--strip-components=1", "-xf", archive)
    assert builder(place / "bin/tarry", "version").stdout == f"tarry {VERSION}\n"
    for name in ("lib/systemd/system/tarry.service", "lib/sysusers.d/tarry.conf", "etc/tarry/tarry.conf", "INSTALL"):
        assert (place / name).stat().st_size > 0
    assert "libcurl4" in (place / "INSTALL").read_text(encoding="utf-8")


def test_two_builds_are_the_same_bytes(builder, packages, libraries, directory):
    """A builder in another directory, by another user with another umask, at another time."""
    other = Builder(directory / "elsewhere/deep", user=pwd.getpwnam("daemon"), name="source", umask="077")
    other("make", "package", "RELEASE=2")
    names = [packages[1].name, *(path.name for path in libraries if "-2_" in path.name), f"tarry-{VERSION}-linux-{os.uname().machine}.tar.gz", f"tarry-{VERSION}.spdx.json"]
    builder("make", "package", "RELEASE=2")
    for name in names:
        one, two = ((tree / "build-package" / name).read_bytes() for tree in (builder.tree, other.tree))
        assert one == two, name
    assert str(other.tree).encode() not in (other.tree / "build-package/stripped/tarry").read_bytes()


def test_the_program_has_at_most_five_mib(builder, packages):
    """Limits the size of the program with all wings; the console is 0.28 of them, plain and packed."""
    assert (builder.tree / "build-package/stripped/tarry").stat().st_size <= 5 << 20


def test_the_list_of_parts_is_spdx_and_names_linked_libraries(builder, packages, tools):
    path = builder.tree / f"build-package/tarry-{VERSION}.spdx.json"
    run(tools / "pyspdxtools", "-i", path)
    document = json.loads(path.read_text(encoding="utf-8"))
    names = {package["name"] for package in document["packages"]}
    linked = re.findall(r"([a-z0-9.+-]+) \(", run("dpkg-deb", "-f", packages[0], "Depends").stdout)
    assert set(linked) - {"systemd"} <= names and {"tarry", "node-llhttp", "gcc"} <= names
    [own] = [package for package in document["packages"] if package["name"] == "tarry"]
    program = (builder.tree / "build-package/stripped/tarry").read_bytes()
    assert own["checksums"][0]["checksumValue"] == hashlib.sha256(program).hexdigest()


def test_signed_checksums_are_checked_as_documented(builder, packages):
    """Signs with a key that is thrown away."""
    place = builder.tree / "build-package"
    builder("signify-openbsd", "-G", "-n", "-p", place / "tarry.pub", "-s", "tarry.sec")
    builder("scripts/sign", "tarry.sec")
    check = f"cd build-package\n{documented('verify')}"
    assert f"{packages[0].name}: OK" in builder("bash", "-euc", check).stdout
    sound = packages[0].read_bytes()
    try:
        packages[0].write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        assert builder("bash", "-euc", check, check=False).returncode != 0
    finally:
        packages[0].write_bytes(sound)
    signed = place / "SHA256SUMS.sig"
    text = signed.read_text(encoding="utf-8")
    signed.write_text(text.replace("SHA256 (tarry_", "SHA256 (tarrY_"), encoding="utf-8")
    assert builder("bash", "-euc", check, check=False).returncode != 0
    missing = builder("scripts/sign", "none.sec", check=False)
    assert missing.returncode == 1 and "cannot read the key 'none.sec'" in missing.stderr


# ---- from the last version, and back ----

INSTALL = "apt-get install -q -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold"


def test_an_upgrade_from_the_last_version_keeps_the_jobs(needs_previous, machine):
    machine(f"{INSTALL} /root/tarry-previous.deb")
    old = machine("dpkg-query -W -f '${Version}' tarry").stdout
    assert old != f"{VERSION}-1"
    push(machine, "orders")
    machine(f"{INSTALL} /root/tarry-1.deb")
    assert machine("tarry version").stdout == f"tarry {VERSION}\n" and show(machine, "ActiveState") == "active"
    assert pending(machine, "orders") == JOBS
    push(machine, "later", 5)


def test_a_downgrade_to_a_version_that_cannot_read_the_jobs_is_refused_in_words(needs_previous, machine):
    machine(f"{INSTALL} /root/tarry-previous.deb")
    wait_until(lambda: "this version reads up to" in machine("journalctl -u tarry").stdout)
    reported = machine("journalctl -u tarry").stdout
    assert "use the version that wrote it, or a newer one" in reported and show(machine, "ActiveState") != "active"
    machine(f"systemctl stop tarry; {INSTALL} /root/tarry-1.deb; systemctl reset-failed tarry || :; systemctl start tarry")
    assert (pending(machine, "orders"), pending(machine, "later")) == (JOBS, 5)


def test_a_downgrade_within_a_format_works(machine):
    machine(f"{INSTALL} /root/tarry-2.deb")
    push(machine, "newer", 7)
    machine(f"{INSTALL} /root/tarry-1.deb")
    assert show(machine, "ActiveState") == "active"
    assert pending(machine, "newer") == 7
    machine("apt-get purge -q -y tarry; rm -r /var/lib/tarry; test ! -e /etc/tarry; test ! -e /run/tarry")


# ---- installed ----

def test_installing_starts_the_server_as_its_own_user(machine):
    assert "tarry" in machine("apt-get install -q -y --no-install-recommends /root/tarry-1.deb").stdout
    assert machine("systemctl is-active tarry; systemctl is-enabled tarry").stdout.split() == ["active", "enabled"]
    assert machine("stat -c '%U %a %F' /var/lib/tarry").stdout.strip() == "tarry 700 directory"
    assert machine(f"stat -c %U /proc/{show(machine, 'MainPID')}").stdout.strip() == "tarry"
    push(machine, "orders")
    assert pending(machine, "orders") == JOBS


def test_pages_and_completions_are_in_the_directories_of_debian(machine):
    listed = machine("dpkg -L tarry").stdout
    for name in ("man/man1/tarry.1.gz", "man/man5/tarry.conf.5.gz", "doc/tarry/copyright", "doc/tarry/changelog.gz", "doc/tarry/changelog.Debian.gz",
                 "bash-completion/completions/tarry", "zsh/site-functions/_tarry", "fish/vendor_completions.d/tarry.fish"):
        assert f"/usr/share/{name}\n" in listed, name
    assert "MIT" in (REPO / "LICENSE").read_text(encoding="utf-8") and "Expat" in machine("cat /usr/share/doc/tarry/copyright").stdout


def test_a_policy_is_the_users_and_is_read_again_on_reload(machine):
    machine(documented("policy"))
    assert "policy read" in machine("journalctl -u tarry").stdout
    machine("echo 'allow-host = shop.example' >> /etc/tarry/policy; systemctl reload tarry")
    wait_until(lambda: "policy reloaded" in machine("journalctl -u tarry").stdout)


# ---- the unit ----

def test_the_sandbox_is_tight_and_the_server_works_in_it(machine):
    answer = machine("systemd-analyze security tarry.service --no-pager | tail -n 1").stdout
    assert float(re.search(r"tarry.service: ([0-9.]+)", answer).group(1)) <= 2.0, answer


def test_pages_of_each_command_and_the_list_of_parts_are_installed(machine):
    listed = machine("dpkg -L tarry").stdout
    for name in ("man/man1/tarry-push.1.gz", "man/man1/tarry-serve.1.gz", "doc/tarry/tarry.spdx.json"):
        assert f"/usr/share/{name}\n" in listed, name
    assert machine("stat -c '%U %G %a' /run/tarry /etc/tarry").stdout.split("\n")[:2] == ["tarry tarry 755", "root tarry 750"]


def test_a_server_that_hangs_is_ended_and_started_again(machine):
    assert show(machine, "WatchdogUSec") == "1min"
    machine("mkdir -p /run/systemd/system/tarry.service.d && printf '[Service]\\nWatchdogSec=2s\\n' > /run/systemd/system/tarry.service.d/quick.conf")
    machine("systemctl daemon-reload; systemctl restart tarry")
    before = show(machine, "MainPID")
    time.sleep(4)
    assert show(machine, "MainPID") == before, "it reported readiness in time"
    machine(f"kill -STOP {before}")
    wait_until(lambda: show(machine, "MainPID") not in ("0", before) and is_served(machine), 60)
    assert "Watchdog timeout" in machine("journalctl -u tarry").stdout
    machine("rm /run/systemd/system/tarry.service.d/quick.conf; systemctl daemon-reload; systemctl restart tarry")
    assert pending(machine, "orders") == JOBS


def test_the_socket_of_systemd_stays_while_the_server_restarts(machine):
    assert machine("systemctl is-enabled tarry.socket", check=False).stdout.strip() == "disabled"
    machine("cp -p /etc/tarry/tarry.conf /root/tarry.conf.socket")
    machine(documented("socket"))
    assert pending(machine, "orders") == JOBS
    machine("systemctl stop tarry")
    assert pending(machine, "orders") == JOBS, "whoever connects starts it"
    assert show(machine, "ActiveState") == "active"
    machine("systemctl disable --now tarry.socket; systemctl stop tarry; cp -p /root/tarry.conf.socket /etc/tarry/tarry.conf; systemctl start tarry")


def test_a_certificate_reaches_the_server_as_a_credential(machine, directory):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", machine.root / "root/tls.key", "-out", machine.root / "root/tls.pem")
    machine("cp -p /etc/tarry/tarry.conf /root/tarry.conf.socket")
    machine(f"cd /root; {documented('credentials')}")
    assert machine("tarry list orders --json --url https://localhost:8443 --ca /root/tls.pem").stdout.count('"id":') == JOBS
    assert machine("setpriv --reuid=nobody --regid=nogroup --clear-groups cat /run/credentials/tarry.service/tarry.tls.key", check=False).returncode != 0
    machine("cp -p /root/tarry.conf.socket /etc/tarry/tarry.conf; rm -r /etc/credstore/tarry.*; systemctl restart tarry")
    assert pending(machine, "orders") == JOBS


def test_a_unix_socket_and_tokens_work_in_the_sandbox(machine):
    machine("cp -p /etc/tarry/tarry.conf /root/tarry.conf.socket")
    machine(f"cd /root; {documented('tokens')}")
    assert machine("TARRY_TOKEN=$(cat /root/token) tarry list orders --json").stdout.count('"id":') == JOBS
    assert machine("tarry list orders --json", check=False).returncode == 1
    assert machine("stat -c '%U %G %a' /run/tarry/tarry.sock").stdout.strip() == "tarry tarry 660"
    machine("cp -p /root/tarry.conf.socket /etc/tarry/tarry.conf; rm /etc/tarry/tokens /root/token; systemctl restart tarry")


def test_the_documented_restore_returns_the_backup(machine):
    machine(documented("backup"))
    push(machine, "later", 5)
    machine(documented("restore"))
    assert (pending(machine, "orders"), pending(machine, "later")) == (JOBS, 0)
    assert machine("find /var/lib/tarry ! -user tarry").stdout == ""
    machine("rm -r /var/lib/tarry.old /var/backups/tarry")


def test_a_backup_made_by_root_is_restored(machine):
    machine("install -d /var/backups/tarry && tarry backup --copy /var/backups/tarry/2026-11-20 && chown -R root: /var/backups/tarry/")
    machine(documented("restore").replace("runuser -u tarry -- ", ""))
    assert pending(machine, "orders") == JOBS
    machine("rm -r /var/lib/tarry.old /var/backups/tarry")


# ---- ended ----

def test_a_killed_server_is_started_again(machine):
    before = show(machine, "MainPID")
    machine(f"kill -9 {before}")
    wait_until(lambda: show(machine, "MainPID") not in ("0", before) and is_served(machine))
    assert pending(machine, "orders") == JOBS


def test_a_wrong_configuration_is_not_tried_again(machine):
    machine("cp -p /etc/tarry/tarry.conf /root/; echo 'max-boddy = 1MiB' >> /etc/tarry/tarry.conf")
    assert machine("systemctl reload tarry", check=False).returncode != 0
    assert show(machine, "ActiveState") == "active" and pending(machine, "orders") == JOBS
    assert machine("systemctl restart tarry", check=False).returncode != 0
    wait_until(lambda: show(machine, "ActiveState") == "failed")
    assert show(machine, "NRestarts") == "0"
    assert "did you mean max-body" in machine("journalctl -u tarry").stdout
    machine("cp -p /root/tarry.conf /etc/tarry/; systemctl start tarry")
    assert pending(machine, "orders") == JOBS


def test_a_start_that_fails_for_ever_is_given_up(machine):
    """Uses the unit's own numbers, but a hundredth of the time: a drop-in could only show that the retries end."""
    burst, interval, pause = (int(show(machine, name)) if name == "StartLimitBurst" else show(machine, name)
                              for name in ("StartLimitBurst", "StartLimitIntervalUSec", "RestartUSec"))
    assert (burst, interval, pause) == (300, "11min", "2s"), "300 starts, 2 s apart, are 10 min: less than the interval, so there is an end"
    machine("mkdir -p /run/systemd/system/tarry.service.d && printf '[Unit]\\nStartLimitBurst=3\\n[Service]\\nRestartSec=20ms\\n' > /run/systemd/system/tarry.service.d/quick.conf")
    machine("systemctl stop tarry; systemctl daemon-reload; echo 'shards = 5' >> /etc/tarry/tarry.conf; systemctl reset-failed tarry || :")
    assert machine("systemctl start tarry", check=False).returncode != 0
    wait_until(lambda: show(machine, "ActiveState") == "failed" and show(machine, "SubState") == "failed")
    machine("rm /run/systemd/system/tarry.service.d/quick.conf; systemctl daemon-reload; cp -p /root/tarry.conf /etc/tarry/; systemctl reset-failed tarry; systemctl start tarry")
    assert pending(machine, "orders") == JOBS


# ---- upgraded ----

def test_an_upgrade_at_work_keeps_the_jobs_and_serves_on(machine):
    machine("tarry push soon 1 --delay 1s --body x")
    before = show(machine, "MainPID")
    machine("apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-confold /root/tarry-2.deb")
    assert show(machine, "ActiveState") == "active" and show(machine, "MainPID") != before
    assert machine("dpkg-query -W -f '${Version}' tarry").stdout == f"{VERSION}-2"
    assert pending(machine, "orders") == JOBS
    assert "x" in machine("tarry take soon --wait 10s --json").stdout
    assert "allow-host" in machine("cat /etc/tarry/policy").stdout and "deliver =" in machine("cat /etc/tarry/tarry.conf").stdout


def test_an_upgrade_leaves_a_stopped_server_stopped(machine):
    machine("systemctl stop tarry; apt-get install -q -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold /root/tarry-1.deb")
    assert show(machine, "ActiveState") == "inactive"
    machine("apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-confold /root/tarry-2.deb; systemctl start tarry")
    assert pending(machine, "orders") == JOBS


def test_jobs_move_to_another_place_as_documented(machine):
    machine(documented("place"))
    assert pending(machine, "orders") == JOBS
    assert machine("ls /proc/$(systemctl show tarry -p MainPID --value)/fd -l").stdout.count("/srv/tarry") > 0
    machine("systemctl stop tarry; rm -r /etc/systemd/system/tarry.service.d; systemctl daemon-reload; cp -p /root/tarry.conf /etc/tarry/; systemctl start tarry; rm -r /srv/tarry")
    assert pending(machine, "orders") == JOBS


# ---- removed ----

def test_removing_stops_the_server_and_keeps_configuration_and_jobs(machine):
    machine("apt-get remove -q -y tarry")
    assert show(machine, "ActiveState") == "inactive" and machine("pgrep -x tarry", check=False).stdout == ""
    assert machine("ls /usr/bin/tarry", check=False).returncode != 0
    machine("test -f /etc/tarry/tarry.conf && test -d /var/lib/tarry/shard-00")


def test_a_purge_removes_the_configuration_and_reports_remaining_jobs(machine):
    done = machine("apt-get purge -q -y tarry 2>&1")
    assert "were not purged with the package" in done.stdout and "rm -r /var/lib/tarry" in done.stdout and "your own files in /etc/tarry were kept" in done.stdout
    machine("test ! -e /etc/tarry/tarry.conf && test -f /etc/tarry/policy && test -d /var/lib/tarry/shard-00")
    assert machine("systemctl cat tarry", check=False).returncode != 0


def test_jobs_that_were_left_are_there_again_after_another_install(machine):
    machine("apt-get install -q -y --no-install-recommends /root/tarry-1.deb")
    assert pending(machine, "orders") == JOBS
    machine("apt-get purge -q -y tarry; rm -r /var/lib/tarry /etc/tarry; userdel tarry")


# ---- other ways in ----

def test_the_archive_becomes_a_service_as_documented(machine, builder):
    note = (REPO / "packaging/INSTALL").read_text(encoding="utf-8")
    [block] = re.findall(r"as root:\n\n(.*?)\n\n", note, re.DOTALL)
    [archive] = (builder.tree / "build-package").glob("*.tar.gz")
    shutil.copy(archive, machine.root / "root/tarry.tar.gz")
    machine("mkdir /root/archive && tar -C /root/archive --strip-components=1 -xf /root/tarry.tar.gz")
    machine(f"cd /root/archive\n{block}")
    assert machine("readlink /proc/$(systemctl show tarry -p MainPID --value)/exe").stdout.strip() == "/usr/local/bin/tarry"
    push(machine, "orders", 3)
    assert pending(machine, "orders") == 3
    machine(f"echo '# mine' >> /usr/local/etc/tarry/tarry.conf\ncd /root/archive\n{block}")  # as an upgrade: over what runs
    assert machine("tail -n 1 /usr/local/etc/tarry/tarry.conf").stdout == "# mine\n"
    assert pending(machine, "orders") == 3
    machine("systemctl disable --now tarry; cd /usr/local && rm -r bin/tarry lib/systemd lib/sysusers.d lib/tmpfiles.d etc/tarry share/doc/tarry; systemctl daemon-reload; rm -r /var/lib/tarry; userdel tarry")
