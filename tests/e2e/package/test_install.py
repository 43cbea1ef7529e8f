"""`make install` and `make uninstall` install and remove only the built files, at the given place."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from server import BINARY, REPO

NOBODY = 65534


def make(target, *settings, tree=REPO, user=None, check=True, program=BINARY):
    """`make TARGET` with `program` as what is built; as `user` where root runs this."""
    lowered = {"user": user, "group": user, "extra_groups": []} if user and os.geteuid() == 0 else {}
    environment = {**os.environ, "TARRY": str(program), "TARRY_NO_SETUP": "1", "HOME": "/nonexistent"}
    done = subprocess.run(["make", "-s", target, *settings], cwd=tree, env=environment, capture_output=True, text=True, timeout=120, check=False, **lowered)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


@pytest.fixture
def prefix(tmp_path):
    make("install", f"PREFIX={tmp_path}/tarry")
    return tmp_path / "tarry"


def test_the_installation_runs_and_is_complete(prefix):
    assert subprocess.run([prefix / "bin/tarry", "version"], capture_output=True, text=True, check=True).stdout.startswith("tarry ")
    wanted = {"lib/systemd/system/tarry.service", "lib/systemd/system/tarry.socket", "lib/sysusers.d/tarry.conf", "lib/tmpfiles.d/tarry.conf", "share/man/man1/tarry-push.1", "etc/tarry/tarry.conf", "share/man/man1/tarry.1", "share/man/man5/tarry.conf.5",
              "share/bash-completion/completions/tarry", "share/zsh/site-functions/_tarry", "share/fish/vendor_completions.d/tarry.fish", "share/doc/tarry/LICENSE",
              *(f"share/man/man1/tarry-{name}.1" for name in ("status", "top", "tail")), "share/doc/tarry/docs/runbooks/late.md", "share/doc/tarry/docs/metrics.md",
              "share/doc/tarry/packaging/prometheus/tarry.rules.yml", "share/doc/tarry/packaging/grafana/tarry.json", "share/doc/tarry/packaging/logrotate.conf"}
    assert wanted <= files(prefix)
    for name in wanted:
        assert (prefix / name).stat().st_size > 100 and (prefix / name).stat().st_mode & 0o777 == 0o644


def test_the_unit_names_the_program_and_the_configuration_of_this_installation(prefix):
    unit = (prefix / "lib/systemd/system/tarry.service").read_text(encoding="utf-8")
    assert f"ExecStart={prefix}/bin/tarry serve --config {prefix}/etc/tarry/tarry.conf\n" in unit
    assert f"Documentation=file://{prefix}/share/doc/tarry/docs/operations/README.md" in unit
    assert "/usr/bin" not in unit and (prefix / "share/doc/tarry/docs/operations/README.md").exists()


def test_links_between_installed_documents_lead_somewhere(prefix):
    root, count = prefix / "share/doc/tarry", 0
    for page in root.rglob("*.md"):
        for target in re.findall(r"(?:\]\(|src=\")([^)#\s\"]+)", page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                count += 1
                assert (page.parent / target).exists(), f"{page.relative_to(root)}: {target}"
    assert count > 20


def test_uninstall_takes_all_of_it_away(prefix):
    (prefix / "bin/other").write_text("not ours")
    make("uninstall", f"PREFIX={prefix}")
    assert files(prefix) == {"bin/other"}
    assert not (prefix / "share/doc/tarry").exists()


def test_a_changed_configuration_is_kept_by_both(prefix):
    conf = prefix / "etc/tarry/tarry.conf"
    conf.write_text("data = /elsewhere\n")
    make("install", f"PREFIX={prefix}")
    assert conf.read_text() == "data = /elsewhere\n"
    assert f"kept, because it was changed: {conf}" in make("uninstall", f"PREFIX={prefix}").stdout
    assert files(prefix) == {"etc/tarry/tarry.conf"}


def test_a_package_has_it_below_destdir_with_the_paths_of_the_system(tmp_path):
    make("install", "PREFIX=/usr", f"DESTDIR={tmp_path}")
    assert "ExecStart=/usr/bin/tarry serve --config /etc/tarry/tarry.conf\n" in (tmp_path / "usr/lib/systemd/system/tarry.service").read_text(encoding="utf-8")
    assert (tmp_path / "etc/tarry/tarry.conf").exists() and {path.name for path in tmp_path.iterdir()} == {"usr", "etc"}


@pytest.fixture
def open_tree():
    """A copy that any user reaches, without sources."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        shutil.copytree(REPO, f"{path}/tree", ignore=shutil.ignore_patterns("build*", ".git", "src", "data", "node_modules"))
        yield pathlib.Path(path) / "tree"


def test_a_user_without_rights_gets_advice(open_tree):
    done = make("install", "PREFIX=/usr/local", user=NOBODY, check=False, tree=open_tree, program="/bin/true")
    assert done.returncode != 0 and "cannot write to '/usr/local" in done.stderr
    assert "sudo make install" in done.stderr and "make install PREFIX=$HOME/.local" in done.stderr
    done = make("uninstall", "PREFIX=/usr/local", user=NOBODY, check=False, tree=open_tree)
    assert done.returncode != 0 and "sudo make uninstall" in done.stderr


def test_installing_builds_nothing_and_keeps_the_tree_unchanged(open_tree, tmp_path):
    tree = open_tree
    before = files(tree)
    make("install", f"PREFIX={tmp_path}/there", tree=tree)
    assert files(tree) == before
    environment = {key: value for key, value in os.environ.items() if key != "TARRY"}
    done = subprocess.run(["make", "-s", "install", f"PREFIX={tmp_path}/other"], cwd=tree, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "nothing is built, run 'make' first" in done.stderr
    assert files(tree) == before and not (tmp_path / "other").exists()


def test_a_relative_prefix_is_rejected():
    done = make("install", "PREFIX=here", check=False)
    assert done.returncode != 0 and "does not begin with /" in done.stderr
