"""All parts have the version of CMakeLists.txt (scripts/version)."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def places():
    text = (ROOT / "scripts/version").read_text()
    return sorted(set(re.findall(r'^    \("([^"]+)", ', text, re.M)) | {"CMakeLists.txt", "cmake/library.cmake"})


def check(root, *arguments):
    return subprocess.run([root / "scripts/version", *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def copy(tmp_path):
    """A copy of the files that have a version."""
    for name in [*places(), "scripts/version"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_all_parts_have_one_version():
    done = check(ROOT)
    assert done.returncode == 0, done.stdout


def test_another_version_in_cmake_is_reported_for_each_place_and_written_to_all(copy):
    path = copy / "CMakeLists.txt"
    path.write_text(re.sub(r"(?m)^(project\(tarry VERSION )[0-9.]+", r"\g<1>1.77.3", path.read_text()))
    done = check(copy)
    assert done.returncode == 1
    assert {line.split(":")[0] for line in done.stdout.splitlines()} == set(places()) - {"CMakeLists.txt", "cmake/library.cmake"}
    assert check(copy, "--write").returncode == 0 and check(copy).returncode == 0


def test_a_soname_with_another_major_version_is_reported(copy):
    path = copy / "CMakeLists.txt"
    path.write_text(re.sub(r"(?m)^(project\(tarry VERSION )[0-9.]+", r"\g<1>2.0.0", path.read_text()))
    check(copy, "--write")
    done = check(copy)
    assert done.returncode == 1 and "SOVERSION is 1 and the version is 2.0.0" in done.stdout
