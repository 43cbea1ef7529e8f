"""A bare Debian in a directory: the result of debootstrap, git, make, curl, sudo, and an ordinary user with a clone of this tree. As a program it
prints why this is impossible here."""

import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/package"))
from machine import SUITE, mirror, run  # noqa: E402

USER = "dev"
INCLUDED = "git,make,curl,sudo,ca-certificates"
# Settings that the network of this machine requires of programs: proxies, and trusted CAs.
NETWORK = re.compile(r"(?i)\w+_proxy$|(SSL_CERT|PIP_CERT|CURL_CA|REQUESTS_CA|NODE_EXTRA_CA)\w*$|PIP_DEFAULT_TIMEOUT$")

# $1: the root, $2: where packages are kept, $3: the user; then the command. The shell stays process 1, outside of the root: systemctl sees that it is in one.
ENTER = r"""
set -eu
root=$1 packages=$2 user=$3
shift 3
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount --bind "$packages" "$root/var/cache/apt/archives"
chroot "$root" setpriv --reuid="$user" --regid="$user" --init-groups "$@"
exit $?
"""


def lacks():
    """The reason why no root can be made here, or None."""
    for tool in ("debootstrap", "unshare", "setpriv"):
        if not shutil.which(tool):
            return f"no '{tool}', run: scripts/setup package_test"
    if os.geteuid() != 0:
        return "not root, and sudo wants a password or is not there"
    done = run("unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", "mount -t tmpfs tmpfs /mnt", check=False)
    return f"no namespaces here: {done.stderr.strip()}" if done.returncode else None


def sources():
    """Lines of sources.list: the packages of Debian that apt has on this machine, without those of others. Empty: what debootstrap writes is right."""
    targets = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(RELEASE) $(COMPONENT) $(REPO_URI)", check=False).stdout
    rows = [line.split() for line in targets.splitlines()]
    return sorted({f"deb {row[4]} {row[2]} {row[3]}" for row in rows if len(row) == 5 and row[0] == "Debian" and row[1].startswith(SUITE)})


class Root:
    """`packages` keeps packages for the next time."""

    def __init__(self, directory, packages):
        self.directory, self.packages = directory, packages
        (packages / "partial").mkdir(parents=True, exist_ok=True)
        for package in pathlib.Path("/var/cache/apt/archives").glob("*.deb"):  # what this machine has is not fetched again
            if not (packages / package.name).exists():
                shutil.copy(package, packages)

    def make(self):
        run("unshare", "--mount", "--propagation", "private", "debootstrap", "--variant=minbase", f"--include={INCLUDED}", f"--cache-dir={self.packages}",
            SUITE, self.directory, *mirror(), seconds=1800)
        self._carry_network()
        etc = self.directory / "etc"
        (etc / "hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n::1 localhost\n")
        (etc / "dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")  # a root that is thrown away is not synced
        self._inside("useradd", "--create-home", "--shell", "/bin/bash", USER)
        (etc / "sudoers.d").mkdir(exist_ok=True)
        (etc / "sudoers.d" / USER).write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
        self._clone()

    def _inside(self, *command):
        """Runs a command as root in there. The directory for temporary files that scripts/test made does not exist there."""
        run("env", "-u", "TMPDIR", "chroot", self.directory, *command)

    def _carry_network(self):
        etc = self.directory / "etc"
        if lines := sources():
            (etc / "apt/sources.list").write_text("\n".join(lines) + "\n")
        wanted = [line for line in run("apt-config", "dump").stdout.splitlines() if re.match(r"Acquire::(http|https)::", line)]
        (etc / "apt/apt.conf.d/90network").write_text("\n".join([*wanted, 'APT::Keep-Downloaded-Packages "true";']) + "\n")
        for name in ("/etc/apt/auth.conf.d", "/usr/local/share/ca-certificates"):
            if pathlib.Path(name).is_dir():
                shutil.copytree(name, self.directory / name[1:], dirs_exist_ok=True)
        for name in ("/etc/resolv.conf", "/etc/pip.conf"):
            if pathlib.Path(name).exists():
                shutil.copy(name, self.directory / name[1:])
        self._inside("update-ca-certificates")

    def _clone(self):
        """The clone of the user, with what is changed in this tree and not committed."""
        tree = self.directory / "home" / USER / "tarry"
        run("git", "-c", "safe.directory=*", "clone", "-q", f"file://{REPO}", tree)
        listed = run("git", "-c", "safe.directory=*", "-C", REPO, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split("\0")
        there = "\0".join(name for name in listed if name and (REPO / name).is_file())
        packed = subprocess.run(["tar", "-C", REPO, "--null", "-T", "-", "-c"], input=there.encode(), capture_output=True, check=True).stdout
        subprocess.run(["tar", "-C", tree, "-x", "--no-same-owner"], input=packed, check=True)
        owner = (self.directory / "home" / USER).stat()
        for folder, _, files in os.walk(tree):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                os.lchown(path, owner.st_uid, owner.st_gid)

    def __call__(self, command, user=USER, check=True, seconds=1800):
        """A line for the user's shell, in the clone. Nothing that it started outlives it."""
        home = "/root" if user == "root" else f"/home/{user}"
        network = {name: value for name, value in os.environ.items() if NETWORK.match(name)}
        environment = {"HOME": home, "USER": user, "LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **network}
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "bash", "-c", ENTER, "enter", self.directory,
                   self.packages, user, "bash", "-c", f"umask 022; cd /home/{USER}/tarry && {command}", check=check, seconds=seconds, env=environment)


if __name__ == "__main__":
    if why := lacks():
        print(why)
        sys.exit(1)
