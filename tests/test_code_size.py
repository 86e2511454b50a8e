"""The check of sizes: code without comments and docstrings, long files and functions, rooms with many files."""

from pathlib import Path

from code_size import code_lines, crowded_rooms, problems_of

PROGRAM = '''"""A docstring
of two lines."""

import os  # with a comment


class Point:
    x: int
    """What x is."""

    def show(self) -> str:
        """One line."""
        # a comment
        return """two
lines"""
'''


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    assert code_lines(PROGRAM) == 6, "import, class, x, def, and a string of two lines that is a value"


def test_a_file_of_400_lines_and_a_function_of_80_are_allowed() -> None:
    function = "def f():\n" + "    g()\n" * 79
    assert problems_of("a.py", function + "\n" * 320) == []


def test_a_longer_file_and_a_longer_function_are_found() -> None:
    function = "x = 1\n\n\ndef f():\n" + "    g()\n" * 80
    found = problems_of("a.py", function + "\n" * 320)
    assert found[0].startswith("a.py has 404 lines, more than 400.")
    assert found[1:] == ["a.py:4: f has 81 lines, more than 80."]


def test_a_room_may_have_30_files_beside_its_init_file_and_its_own_rooms(tmp_path: Path) -> None:
    room = tmp_path / "package" / "room"
    (room / "inner").mkdir(parents=True)
    for name in ("__init__", "inner/__init__", "inner/one", *(f"module_{number}" for number in range(30))):
        (room / f"{name}.py").touch()
    (room / "table.json").touch()
    assert crowded_rooms(tmp_path) == []
    (room / "module_30.py").touch()
    assert crowded_rooms(tmp_path) == ["package/room/ has 31 files, more than 30. Give one purpose a room of its own."]
