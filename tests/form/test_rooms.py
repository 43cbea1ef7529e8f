"""scripts/rooms finds circles of files, also through inline functions of headers."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOUCH = "static inline void line_touch(struct line *line)\n{\n    line->touched = true;\n}\n"


def circles(tree, files):
    """Returns the report of scripts/rooms about circles of these files of a room."""
    room = tree / "src/core/base"
    room.mkdir(parents=True)
    (tree / "scripts").mkdir()
    (tree / "docs").mkdir()
    shutil.copy(ROOT / "scripts/rooms", tree / "scripts")
    (tree / "src/rooms.txt").write_text("core/base:\n")
    (tree / "docs/glossary.md").write_text("")
    for name, text in files.items():
        (room / name).parent.mkdir(exist_ok=True)
        (room / name).write_text(text)
    done = subprocess.run([tree / "scripts/rooms"], capture_output=True, text=True, check=False, timeout=60)
    return [line.split(": ")[-1] for line in done.stdout.splitlines() if "in a circle" in line]


@pytest.mark.parametrize("header, expected", [("line.h", ["line page"]), ("line_state.h", [])])
def test_an_inline_function_counts_as_one_of_its_header(tmp_path, header, expected):
    files = {"line.c": "void line_end(void)\n{\n    page_close();\n}\n", header: TOUCH,
             "page.c": "void page_close(void)\n{\n    line_touch(NULL);\n}\n"}
    assert circles(tmp_path, files) == expected


def test_a_struct_with_the_name_of_an_inline_function_is_not_a_call(tmp_path):
    files = {"line.c": "void line_end(void)\n{\n    page_close();\n}\n", "line.h": TOUCH,
             "page.c": "void page_close(void)\n{\n    struct line_touch touch;\n}\n"}
    assert circles(tmp_path, files) == []


def test_a_circle_through_two_folders_of_a_room_is_found(tmp_path):
    files = {"disk/line.c": "void line_end(void)\n{\n    page_close();\n}\n", "page.c": "void page_close(void)\n{\n    line_end();\n}\n"}
    assert circles(tmp_path, files) == ["line page"]
