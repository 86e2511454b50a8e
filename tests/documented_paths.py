"""Run by `make check`: every path and every heading that a document links to exists, and every recipe loads.

A path is inline code that begins with a folder of the project, the target of a relative link, or a file of the tree of
README.
"""

import re
import sys
import tomllib
from pathlib import Path

from headswap.core.errors import HeadswapError
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe
from headswap.study.setup.config import StudyRecipe

ROOT = Path(__file__).parents[1]
FOLDERS = ("src/", "tests/", "docs/", "recipes/", "benchmarks/", "bases/", ".ci/")
RECIPES = {"pretrain": PretrainRecipe, "finetune": FinetuneRecipe, "study": StudyRecipe}
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")


def documents(root: Path) -> list[Path]:
    """The documents whose paths are checked."""
    named = [root / name for name in ("README.md", "CONTRIBUTING.md")]
    return [file for file in named if file.exists()] + sorted((root / "docs").rglob("*.md"))


def missing_paths(file: Path, root: Path) -> list[str]:
    """`file:line: path` for every path in a document that does not exist."""
    text = file.read_text(encoding="utf-8")
    problems = []
    for match in CODE.finditer(FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)):
        for word in match[1].split():
            name = word.strip("'\",;:()").split("::")[0]
            is_pattern = any(sign in name for sign in "<>{}$…") or "NNNN" in name
            if name.startswith(FOLDERS) and not is_pattern and not _exists(root, name):
                problems.append(_at(file, root, text, name))
    for match in LINK.finditer(text):
        target, _, anchor = match[1].partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        if target and not _exists(file.parent, target):
            problems.append(_at(file, root, text, target))
            continue
        page = file.parent / target if target else file
        if anchor and page.suffix == ".md" and anchor not in anchors(page.read_text(encoding="utf-8")):
            problems.append(_at(file, root, text, match[1]))
    return problems


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a document, as GitHub makes them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        number = sum(other == name or re.fullmatch(rf"{re.escape(name)}-\d+", other) is not None for other in found)
        found.add(f"{name}-{number}" if name in found else name)
    return found


def missing_in_tree(root: Path) -> list[str]:
    """Rooms and files that the tree of README names and that do not exist."""
    text = (root / "README.md").read_text(encoding="utf-8")
    tree = text.partition("```\nsrc/headswap/\n")[2].partition("```")[0]
    problems, room = [], ""
    for line in tree.splitlines():
        names = re.findall(r"\b[\w/]+(?:\.py|/)(?=[\s,]|$)", line)
        if re.match(r"  \w", line):
            room, names = (names[0], names[1:]) if names[0].endswith("/") else ("", names)
        paths = [f"src/headswap/{room}{name}" for name in names or [""]]
        problems += [f"README.md: {path} does not exist" for path in paths if not (root / path).exists()]
    return problems


def broken_recipes(root: Path) -> list[str]:
    """Errors in the recipes of the project."""
    problems = []
    for file in sorted((root / "recipes").glob("*.toml")):
        verb = tomllib.loads(file.read_text(encoding="utf-8")).get("verb")
        if verb not in RECIPES:
            problems.append(f"{file.relative_to(root)}: verb = {verb!r} is not one of {', '.join(RECIPES)}.")
            continue
        try:
            load_recipe(RECIPES[verb], file)
        except HeadswapError as problem:
            problems.append(str(problem))
    return problems


def _exists(folder: Path, name: str) -> bool:
    return any(folder.glob(name)) if "*" in name else (folder / name).exists()


def _at(file: Path, root: Path, text: str, name: str) -> str:
    line = text[: text.index(name)].count("\n") + 1
    return f"{file.relative_to(root)}:{line}: {name} does not exist"


def main() -> int:
    """Print every problem; 1 if there is one."""
    problems = [problem for file in documents(ROOT) for problem in missing_paths(file, ROOT)]
    problems += missing_in_tree(ROOT) + broken_recipes(ROOT)
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
