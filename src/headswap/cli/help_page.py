"""Help pages: `headswap --help`, `headswap COMMAND --help` with the common flags, `--help-all` with all of them.

A page is built from the arguments that cyclopts reads from a command's signature, in the groups and the order of
help_tables.py. Nothing here imports torch.
"""

import inspect
import re
import shlex
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from cyclopts import App
from rich.console import Console

from headswap.cli.help_tables import (
    ARGUMENTS,
    COMMON,
    GROUPS,
    HIDDEN,
    NEEDED,
    ORDER,
    OUTSIDE_THEIR_SECTION,
    OWN_VALUES,
    VALUES,
)
from headswap.cli.wording import with_flags
from headswap.core.errors import counted

HELP_FLAGS = ("--help", "-h", "--help-all")
NAME_WIDTH = 30  # of the left column: indentation, flag, value and a gap
WIDEST_PAGE = 100
GLUE = "\0"
STATED_DEFAULT = re.compile(r" ?Default: ((?:[^.]|\.(?=\S))+)\.(?= |$)")  # one sentence of a description
NOTE = re.compile(r" (\[[^\[\]]+\])$")
LONE_DASH = re.compile(r"(?<=\s)- (?=\w)")
LONGEST_CHOICES = 16  # choices up to this length are shown beside the flag


@dataclass(frozen=True)
class Entry:
    """One argument or flag of a page."""

    name: str
    group: str
    label: str
    text: str
    is_required: bool


def asked_page(argv: list[str]) -> str | None:
    """The help flag of a command line; a line without arguments asks for --help."""
    if not argv:
        return HELP_FLAGS[0]
    before = argv[: argv.index("--")] if "--" in argv else argv
    asked = [part for part in before if part in HELP_FLAGS]
    return ("--help-all" if "--help-all" in asked else asked[0]) if asked else None


def print_overview(about: str, groups: Mapping[str, Mapping[str, str]], models: str) -> None:
    """The page of `headswap --help`: every command in one line."""
    console, width = _console()
    _print_usage(console, "headswap COMMAND [ARGUMENTS] [OPTIONS]", width)
    _print_text(console, about, width)
    for title, verbs in groups.items():
        console.print(f"\n{title}", style="bold")
        for verb, description in verbs.items():
            _print_entry(console, verb, description, width, name_width=14)
    _print_text(
        console,
        f"\n{models}\n\nheadswap COMMAND --help shows the main options of a command, --help-all all of them.",
        width,
    )


def print_page(app: App, verb: str, *, everything: bool) -> None:
    """The page of a command: usage, description, examples, flags by group, and how many flags are not shown."""
    console, width = _console()
    entries = [entry for entry in entries_of(app, verb) if entry.name not in HIDDEN.get(verb, ())]
    needed = [entry.label for entry in entries if entry.is_required or entry.group == "Arguments"]
    shown = entries if everything else [entry for entry in entries if is_common(verb, entry)]
    paragraphs, examples = _description(verb)
    _print_usage(console, " ".join(["headswap", verb, *needed, "[OPTIONS]"]), width)
    for paragraph in paragraphs:
        _print_text(console, f"{paragraph}\n", width)
    if examples:
        console.print("Example" if len(examples) == 1 else "Examples", style="bold")
        for example in examples:
            console.print(broken_command(example, width), soft_wrap=True)
    for group in ORDER:
        if members := [entry for entry in shown if entry.group == group]:
            console.print(f"\n{group}", style="bold")
            for entry in members:
                _print_entry(console, entry.label, entry.text, width)
    if hidden := len(entries) - len(shown):
        _print_text(console, f"\n{counted(hidden, 'more option')}: headswap {verb} --help-all", width)


def entries_of(app: App, verb: str) -> list[Entry]:
    """All arguments and flags of a command, the common ones first."""
    arguments = [each for each in app[verb].assemble_argument_collection(parse_docstring=True) if each.show]
    entries = [_entry(argument) for argument in arguments]
    flags = {entry.name for entry in entries if entry.group != "Arguments"}
    entries = [replace(entry, text=_text_with_flags(entry, flags)) for entry in entries]
    own = OWN_VALUES.get(verb, {})
    entries = [replace(each, label=f"--{each.name} {own[each.name]}") if each.name in own else each for each in entries]
    needed = NEEDED.get(verb, ())
    entries = [replace(each, label=each.label.strip("[]")) if each.name in needed else each for each in entries]
    common = COMMON.get(verb, ())
    order = {name: number for number, name in enumerate(common)}
    return sorted(entries, key=lambda entry: (entry.group != "Arguments", order.get(entry.name, len(order))))


def is_common(verb: str, entry: Entry) -> bool:
    """Whether `--help` shows an entry."""
    return verb not in COMMON or entry.group == "Arguments" or entry.name in COMMON[verb]


def broken_command(command: str, width: int) -> str:
    """A command line that fits the width, broken before its flags as a shell reads it."""
    lines, line = [], "  "
    for part in _flags_with_values(command):
        if line.strip() and len(line) + 1 + len(part) > width - 2:
            lines.append(f"{line} \\")
            line = "      "
        line += part if not line.strip() else f" {part}"
    return "\n".join([*lines, line])


def _flags_with_values(command: str) -> list[str]:
    """The words of a command, each flag together with its values."""
    parts: list[str] = []
    for word in shlex.split(command):
        quoted = f'"{word}"' if " " in word or "<" in word else word
        if parts and parts[-1].startswith("--") and not word.startswith("--"):
            parts[-1] += f" {quoted}"
        else:
            parts.append(quoted)
    return parts


def _description(verb: str) -> tuple[list[str], list[str]]:
    """The paragraphs of a command's docstring before its parameters, and its examples."""
    function = getattr(import_module(f"headswap.cli.verbs.{verb}"), verb)
    about, _, _ = (inspect.getdoc(function) or "").partition("\nParameters\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in about.split("\n\n") if paragraph.strip()]
    examples = [paragraph.removeprefix("Example: ") for paragraph in paragraphs if paragraph.startswith("Example: ")]
    return [paragraph for paragraph in paragraphs if not paragraph.startswith("Example: ")], examples


def _entry(argument: Any) -> Entry:
    name = argument.name.removeprefix("--").replace("-", "_").lower()
    is_positional = argument.index is not None
    section = next((group.name for group in argument.parameter.group if group.name in ORDER), None)
    group = "Arguments" if is_positional else GROUPS.get(name) if name in OUTSIDE_THEIR_SECTION else section
    label = _positional_label(argument, name) if is_positional else _flag_label(argument, name)
    return Entry(name, group or GROUPS[name], label, _text(argument), argument.required)


def _positional_label(argument: Any, name: str) -> str:
    shown = ARGUMENTS.get(name, name.upper()) + ("..." if get_origin(argument.hint) is tuple else "")
    return shown if argument.required else f"[{shown}]"


def _flag_label(argument: Any, name: str) -> str:
    if bool in _kinds(argument.hint):
        section, dot, last = argument.name.removeprefix("--").rpartition(".")
        has_opposite = f"--{section}{dot}no-{last}" in argument.negatives
        return f"--{section}{dot}[no-]{last}" if has_opposite else argument.name
    return f"{argument.name} {VALUES.get(name.rpartition('.')[2]) or _value(argument.hint)}"


def _kinds(hint: Any) -> list[Any]:
    """The types of `X | None` without None."""
    if get_origin(hint) in (None, Literal, tuple):
        return [hint]
    return [kind for kind in get_args(hint) if kind is not NoneType]


def _value(hint: Any) -> str:
    kind = _kinds(hint)[0]
    if get_origin(kind) is tuple:
        return f"{_value(get_args(kind)[0])}..."
    if get_origin(kind) is Literal:
        choices = "|".join(map(str, get_args(kind)))
        return choices if len(choices) <= LONGEST_CHOICES else "CHOICE"
    return {str: "TEXT", int: "INT", float: "FLOAT"}.get(kind, "PATH")


def _text(argument: Any) -> str:
    """The description, and in brackets what it does not state: required, choices, a default value."""
    text = " ".join((argument.parameter.help or "").split())
    text, _, stated = text.removesuffix("]").partition(" [default: ")
    words = set(re.findall(r"[\w+-]+", text))
    notes = []
    if argument.required and argument.index is None:
        notes.append("required")
    choices = argument.get_choices() or ()
    if _value(argument.hint).startswith("CHOICE") and not {str(choice) for choice in choices} <= words:
        notes.append(f"choices: {', '.join(map(str, choices))}")
    if (default := stated or _default(argument)) and not STATED_DEFAULT.search(text):
        notes.append(f"default: {default}")
    note = f"[{'; '.join(notes)}]" if notes else ""
    return f"{text} {note}".strip()


def _text_with_flags(entry: Entry, flags: set[str]) -> str:
    """Settings in the description as flags, with the prefix of a study, and the default in the brackets at its end.

    `max_length` in the text of a setting with a prefix is the flag with that prefix if there is one; `--max-length` is
    the flag without one if there is one. A value that is in the brackets already is no flag.
    """
    about, bracket, notes = entry.text.partition(" [")
    section = entry.name.rpartition(".")[0] or ("pretrain" if entry.group in ("Model", "Masking") else "finetune")

    def flag(found: re.Match[str]) -> str:
        name = found[0].removeprefix("--").replace("-", "_")
        longer = f"{section}.{name}"
        is_own = "." in entry.name and found[0] == name
        return f"--{longer.replace('_', '-')}" if longer in flags and (is_own or name not in flags) else found[0]

    about = re.sub(r"(?<![\w.-])(?:--[a-z][a-z-]*[a-z]|[a-z]+_[a-z_]+)(?![\w.-]*\w)", flag, about)
    about = with_flags(about, flags)
    if (stated := STATED_DEFAULT.search(about)) is not None:
        about = about[: stated.start()] + about[stated.end() :]
        bracket, notes = " [", f"{notes.removesuffix(']')}; " * bool(notes) + f"default: {stated[1]}]"
    return f"{about}{bracket}{notes}".strip()


def _default(argument: Any) -> str:
    default = argument.field_info.default
    if default is False and "[no-]" in _flag_label(argument, ""):
        return "off"
    if default is None or default is False or default in ((), "") or default is inspect.Parameter.empty:
        return ""
    if default is True:
        return "on"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _console() -> tuple[Console, int]:
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    return console, min(console.width, WIDEST_PAGE)


def _print_usage(console: Console, usage: str, width: int) -> None:
    console.print("\n".join(_lines(f"Usage: {usage}", width, "       ")), style="bold", soft_wrap=True)
    console.print()


def _print_text(console: Console, text: str, width: int) -> None:
    for line in text.split("\n"):
        console.print("\n".join(_lines(line, width)), soft_wrap=True)


def _print_entry(console: Console, label: str, text: str, width: int, *, name_width: int = NAME_WIDTH) -> None:
    """The label in the left column; a label that is too long is on a line of its own."""
    indent = " " * name_width
    lines = _lines(text, width, indent, first=indent)
    if len(label) + 4 <= name_width:
        lines[0] = f"  {label}".ljust(name_width) + lines[0].lstrip()
    else:
        lines.insert(0, f"  {label}")
    console.print("\n".join(lines), soft_wrap=True)


def _lines(text: str, width: int, indent: str = "", *, first: str = "") -> list[str]:
    """The wrapped text. A note in brackets at its end is not broken if it fits on one line; otherwise it begins one."""
    note = NOTE.search(text)
    if note is not None and len(note[1]) > width - len(indent):
        return _lines(text[: note.start()], width, indent, first=first) + _lines(note[1], width, indent, first=indent)
    glued = NOTE.sub(lambda found: " " + found[1].replace(" ", GLUE), text)
    glued = LONE_DASH.sub(f"-{GLUE}", glued)
    lines = textwrap.wrap(
        glued, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(GLUE, " ") for line in lines] or [""]
