"""A Debian of its own for the package: a debootstrapped root, and in it a systemd that is process 1 of namespaces of its own.

It needs no container engine, but a system with root, mount, PID, network and cgroup namespaces, and cgroup2. As a program it prints whether that is so."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

SUITE = "bookworm"
INCLUDED = "systemd,systemd-sysv,libnss-systemd"
START_SECONDS = 60

# From outside the new namespaces to a systemd inside of them; $1 is the root.
BOOT = r"""
set -eu
cd "$1"
mount --bind . .
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys && mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755,nosuid tmpfs dev
for name in null zero full random urandom tty; do : >dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
hostname tarry-test
mkdir -p outside
pivot_root . outside
umount -l /outside
rmdir /outside
mount --make-rshared / # as systemd does if it does not detect a container: credentials are mounted by a child
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=tarry-test \
    setpriv --bounding-set -sys_time,-sys_module,-sys_boot,-mknod,-syslog \
    /lib/systemd/systemd --system --log-target=journal --show-status=0 </dev/null
"""
NAMESPACES = ["--fork", "--pid", "--kill-child", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--propagation", "private"]


def run(*command, check=True, seconds=300, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds, check=False, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def mirror():
    """Returns the source of the suite in apt on this machine; nothing: debootstrap uses its own."""
    targets = run("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", check=False).stdout
    places = [line.split()[1] for line in targets.splitlines() if line.split()[0] == SUITE]
    return places[:1]


def cgroup2():
    """The mount point of control groups, or None."""
    for line in pathlib.Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        if line.split()[2] == "cgroup2":
            return pathlib.Path(line.split()[1])
    return None


def lacks():
    """The reason why no such machine can be made here, or None."""
    for tool in ("debootstrap", "unshare", "nsenter", "setpriv", "dpkg-shlibdeps", "lintian"):
        if not shutil.which(tool):
            return f"no '{tool}', run: scripts/setup package package_test"
    if os.geteuid() != 0:
        return "not root, and sudo wants a password or is not there"
    if not cgroup2() or not os.access(cgroup2(), os.W_OK):
        return "no file system of type cgroup2 that can be written"
    done = run("unshare", *NAMESPACES, "sh", "-c", "mount -t tmpfs tmpfs /mnt && mount -t proc proc /proc", check=False)
    return f"no namespaces here: {done.stderr.strip()}" if done.returncode else None


def debootstrap(root, package):
    """A small Debian in `root`, with what `package` depends on downloaded, not installed."""
    alone = ("unshare", "--mount", "--propagation", "private")  # what is mounted by the way ends with the command
    run(*alone, "debootstrap", "--variant=minbase", f"--include={INCLUDED}", SUITE, root, *mirror(), seconds=600)
    run(*alone, "env", "-u", "TMPDIR", "chroot", root, "apt-get", "clean")
    shutil.copy(package, root / "package.deb")
    if not (root / "etc/resolv.conf").exists():
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    run(*alone, "env", "-u", "TMPDIR", "chroot", root, "apt-get", "update", "-q")
    run(*alone, "env", "-u", "TMPDIR", "chroot", root, "apt-get", "install", "-q", "-y", "--no-install-recommends", "--download-only", "/package.deb")
    (root / "package.deb").unlink()


def unpack_base(root, package, cache):
    """The same from a tar archive in `cache`, which is created if it is missing for these dependencies."""
    depends = run("dpkg-deb", "-f", package, "Depends", "Architecture").stdout
    key = hashlib.sha256(f"{SUITE} {INCLUDED} {depends}".encode()).hexdigest()[:12]
    archive = cache / f"base-{key}.tar"
    if not archive.exists():
        for older in cache.glob("base-*.tar*"):
            older.unlink()
        debootstrap(root, package)
        run("tar", "-C", root, "-cf", f"{archive}.part", ".")
        owner = cache.stat()
        os.chown(f"{archive}.part", owner.st_uid, owner.st_gid)
        os.rename(f"{archive}.part", archive)
    else:
        root.mkdir()
        run("tar", "-C", root, "-xpf", archive)


class Machine:
    """Runs from boot() to stop(). Its outside resources (mounts, a control group) are removed by stop()."""

    def __init__(self, root):
        self.root = root
        self.group = cgroup2() / f"tarry-test-{os.getpid()}"
        self.process = self.pid = None

    def boot(self):
        self.group.mkdir()
        join = f'echo $$ >"{self.group}/cgroup.procs" && exec setpriv --pdeathsig KILL unshare "$@"'
        self.process = subprocess.Popen(["bash", "-c", join, "bash", *NAMESPACES, "bash", "-c", BOOT, "bash", str(self.root)],
                                        stdin=subprocess.DEVNULL)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            assert self.process.poll() is None, "the machine ended while it started"
            children = run("pgrep", "-P", self.process.pid, check=False).stdout.split()
            if children and os.path.exists(f"/proc/{children[0]}/root/run/systemd/private"):
                self.pid = children[0]
                state = self("systemctl is-system-running --wait", check=False).stdout.strip()
                assert state in ("running", "degraded"), state
                return
            time.sleep(0.1)
        raise AssertionError("the machine did not start")

    def __call__(self, command, check=True, seconds=120):
        """A line for root's shell on the machine."""
        return run("nsenter", "-t", self.pid, "-a", "env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                   "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "bash", "-euo", "pipefail", "-c", command, check=check, seconds=seconds)

    def stop(self):
        if self.process:
            self.process.kill()  # its child, process 1 over there, goes with it, and with that all the rest
            self.process.wait()
        until = time.monotonic() + START_SECONDS
        for folder in sorted([path for path in self.group.rglob("*") if path.is_dir()], reverse=True) + [self.group]:
            while folder.exists() and time.monotonic() < until:
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.05)


if __name__ == "__main__":
    if why := lacks():
        print(why)
        sys.exit(1)
