"""Run by `make check`: rejects files of more than 400 lines, functions of more than 80 and rooms of more than 30 files.

It prints the number of code lines. A code line is a line with code: blank lines, comments and docstrings (also those of
fields) do not count.
"""

import ast
import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_FILE = 400
LONGEST_FUNCTION = 80
MOST_FILES = 30
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """The number of code lines of a program."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def problems_of(name: str, text: str) -> list[str]:
    """A sentence per limit that a program exceeds."""
    found = []
    if (length := text.count("\n")) > LONGEST_FILE:
        found.append(f"{name} has {length} lines, more than {LONGEST_FILE}. Give its second idea a file of its own.")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                found.append(f"{name}:{node.lineno}: {node.name} has {length} lines, more than {LONGEST_FUNCTION}.")
    return found


def crowded_rooms(root: Path) -> list[str]:
    """A sentence per folder with too many programs; `__init__.py` and files in folders below do not count."""
    rooms = sorted({file.parent for file in root.rglob("*.py")})
    counts = {room: sum(file.name != "__init__.py" for file in room.glob("*.py")) for room in rooms}
    return [
        f"{room.relative_to(root)}/ has {count} files, more than {MOST_FILES}. Give one purpose a room of its own."
        for room, count in counts.items()
        if count > MOST_FILES
    ]


def main() -> int:
    """Print the code lines of src and every problem; 1 if there is one."""
    texts = {file: file.read_text(encoding="utf-8") for file in sorted((ROOT / "src").rglob("*.py"))}
    problems = [line for file, text in texts.items() for line in problems_of(str(file.relative_to(ROOT)), text)]
    problems += crowded_rooms(ROOT / "src")
    print(f"src has {sum(map(code_lines, texts.values())):,} code lines in {len(texts)} files.")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
