"""The command `headswap`: verbs, errors and exit codes.

Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 failed, 2 wrong use or input, 130
interrupted. A user's mistake is a sentence; a traceback is a defect of ours.
"""

import inspect
import os
import sys
from collections.abc import Collection
from importlib import import_module

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from pydantic import ValidationError

from headswap import __version__
from headswap.cli.main import complain
from headswap.core.errors import HeadswapError, did_you_mean, listed
from headswap.core.settings import Settings, problem_sentences

VERBS = {
    "demo": "The study in small, on film reviews that come along (about 5 minutes).",
    "study": "Learn what pre-training buys: arms x budgets x seeds, with statistics and a report.",
    "report": "Write the report of a study again, from its run folders.",
    "compare": "Compare fine-tunings that were run one by one.",
    "tokenizer": "Train a tokenizer on a corpus.",
    "store": "Turn a corpus into a token store.",
    "cache": "List or clear the cached token stores and tokenizers.",
    "datasets": "List the named data sets.",
    "bases": "List the installed bases, which are used as box:NAME.",
    "doctor": "Examine data before anything is trained, or a bundle before it is trusted.",
    "params": "Count the parameters of a model, by formula and from its tensors.",
    "pretrain": "Pre-train a base on unlabelled text.",
    "adapt": "Go on pre-training a base on new text.",
    "finetune": "Put a new head on a base and fine-tune it on labelled text.",
    "evaluate": "Score a fine-tuned model on labelled text, or a language model on a corpus.",
    "merge": "Add LoRA adapters into the weights.",
    "predict": "Label texts, tag words, answer questions.",
    "generate": "Continue a text.",
    "fill": "Fill in the masked words of a text.",
    "embed": "Turn texts into vectors.",
}
HELP = "Pre-train a Transformer on your own text, swap its head, fine-tune it, and learn what pre-training bought."


def make_app(asked: str | None = None) -> App:
    """The application with every verb registered by its import path.

    The page of the verb that is asked for is its own docstring, with examples; to list the others none is imported.
    """
    app = App(
        name="headswap", help=HELP, version=__version__, help_format="plaintext", suppress_keyboard_interrupt=False
    )
    for order, (verb, description) in enumerate(VERBS.items()):
        told = _page_of(verb) if verb == asked else description
        app.command(f"headswap.cli.{verb}:{verb}", name=verb, help=told, sort_key=order)
    return app


def _page_of(verb: str) -> str:
    """What a verb's docstring says before its parameters, a line a paragraph: the terminal breaks them."""
    function = getattr(import_module(f"headswap.cli.{verb}"), verb)
    said, _, _ = (inspect.getdoc(function) or "").partition("\nParameters\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in said.split("\n\n"))


def run(argv: list[str]) -> int:
    """Run a verb; every failure that a user can mend becomes a sentence on standard error."""
    for part in argv:
        if problem := _half_of_a_character(part):
            return complain(problem, 2)
    try:
        answer = make_app(argv[0] if argv else None)(
            _standard_input_last(argv), exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
    except HeadswapError as problem:
        return complain(str(problem), problem.exit_code)
    except CycloptsError as problem:
        return complain(_wording(problem, argv), 2)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # rich met it first, in a help page
            return 0
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; be quiet about it
        return 0
    except (MemoryError, RuntimeError) as problem:
        if not _is_out_of_memory(problem):
            raise
        return complain("Out of memory. Give fewer or shorter texts at a time, or use another --device.", 1)
    except OSError as problem:
        if problem.strerror is None:
            raise
        where = f"{problem.filename}: " if problem.filename else ""
        return complain(f"{where}{problem.strerror}.", 1)
    return answer if isinstance(answer, int) and not isinstance(answer, bool) else 0


def _half_of_a_character(part: str) -> str | None:
    """What is wrong with an argument whose bytes are not UTF-8: no recipe could hold it, no weights be read from it."""
    try:
        part.encode()
    except UnicodeEncodeError as problem:
        shown = part.encode("ascii", "backslashreplace").decode()
        return (
            f"The argument {shown} holds U+{ord(part[problem.start]):04X}, half of a character. Give texts as UTF-8; "
            "rename a file or folder whose name is not UTF-8."
        )
    return None


def _is_out_of_memory(problem: BaseException) -> bool:
    """Whether the device or the host had no room; torch is not imported to ask. Training says more: see failures.py."""
    name = type(problem).__name__
    return name in ("MemoryError", "OutOfMemoryError") or "can't allocate memory" in str(problem)


def _standard_input_last(argv: list[str]) -> list[str]:
    """A lone - names standard input; cyclopts takes it for an option unless it stands behind --."""
    lone = [at for at, part in enumerate(argv) if part == "-" and argv[at - 1] != "--file"]
    if not lone or "--" in argv:
        return argv
    return [part for at, part in enumerate(argv) if at not in lone] + ["--", *("-" for _ in lone)]


def _wording(problem: CycloptsError, argv: list[str]) -> str:
    """cyclopts' own sentence, or ours where pydantic found a value wanting."""
    if isinstance(problem, UnusedCliTokensError):
        unused = problem.unused_tokens or ()
        hint = {
            "generate": "It takes one prompt, in quotes; with - it reads several, one a line, from standard input.",
            **dict.fromkeys(("predict", "fill", "embed"), "Put a text of several words in quotes."),
        }.get(argv[0], f"See headswap {argv[0]} --help.")
        return f"{listed(unused)} {'is' if len(unused) == 1 else 'are'} too much. {hint}"
    if isinstance(problem, MissingArgumentError) and problem.argument and not problem.argument.tokens:
        name = problem.argument.name
        if name == "--bundle":  # it has no flag
            name = "The bundle"
        return f"{name} {'needs a value' if name in argv else 'is missing'}. See headswap {argv[0]} --help."
    if isinstance(problem, UnknownCommandError):
        return f"'{argv[0]}' is not a verb.{did_you_mean(argv[0], VERBS)} The verbs are: {', '.join(VERBS)}."
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, ValidationError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ValidationError):
        sentences = problem_sentences(cause, Settings)
        return "\n".join(_as_flag(sentence) for sentence in sentences)
    verb = f" {argv[0]}" if argv and argv[0] in VERBS else ""
    sentence = str(problem).strip()
    if isinstance(problem, UnknownOptionError) and (meant := _with_prefix(sentence, argv)):
        return meant
    sentence = sentence.replace('Did you mean "cpu"?', "A GPU is called cuda.") if '"gpu"' in sentence else sentence
    return f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} See headswap{verb} --help."


def _with_prefix(sentence: str, argv: list[str]) -> str | None:
    """What is meant by a flag of a training that a study knows by a prefix."""
    if not argv or argv[0] != "study":
        return None
    from headswap.study.config import StudyRecipe

    flag = next((part.partition("=")[0] for part in argv if f": {part.partition('=')[0]}." in sentence), "")
    field = flag.removeprefix("--").replace("-", "_")
    parts = [name for name in ("pretrain", "finetune") if field in _fields_of(StudyRecipe, name)]
    if not parts:
        return None
    names = " or ".join(f"--{part}.{flag.removeprefix('--')}" for part in parts)
    return f"Unknown option: {flag}. A study has two kinds of training: {names}. See headswap study --help."


def _fields_of(recipe: type[Settings], section: str) -> Collection[str]:
    kind = recipe.model_fields[section].annotation
    return kind.model_fields.keys() if isinstance(kind, type) and issubclass(kind, Settings) else ()


def _as_flag(sentence: str) -> str:
    """`learning_rate = ...` as the flag that the user typed."""
    name, equals, rest = sentence.partition(" = ")
    return f"--{name.replace('_', '-')} {rest}" if equals else sentence
