"""Errors as sentences of the command line: cyclopts' errors in our words, settings by the names of their flags."""

import re
from collections.abc import Collection, Iterable

from cyclopts import CycloptsError, MissingArgumentError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError
from pydantic import ValidationError

from headswap.cli.help_tables import ARGUMENTS
from headswap.core.errors import did_you_mean, listed
from headswap.core.settings import Settings, problem_sentences

NAMES_A_FILE = re.compile(r"\([^()]*\.toml\)|config\.json")
NAME = r"[a-z][\w.]*"
SUBJECT = re.compile(rf"({NAME}(?:(?:, | and ){NAME})*)(?= = |: | cannot | must | holds | exclude | is not allowed)")


def with_flags(message: str, settings: Collection[str]) -> str:
    """The message with `--max-steps` for `max_steps`; a sentence about a recipe or a config.json keeps its names."""
    lines = message.split("\n")
    return "\n".join(line if NAMES_A_FILE.search(line) else _sentence_with_flags(line, settings) for line in lines)


def sentence_of(problem: CycloptsError, argv: list[str], verbs: Iterable[str], settings: Collection[str]) -> str:
    """A sentence for an error that cyclopts or pydantic found in the command line."""
    if isinstance(problem, UnusedCliTokensError):
        return _too_many(problem, argv)
    if isinstance(problem, MissingArgumentError) and problem.argument and not problem.argument.tokens:
        return _missing(problem.argument, argv)
    if isinstance(problem, UnknownCommandError):
        return f"'{argv[0]}' is not a command.{did_you_mean(argv[0], verbs)} The commands are: {', '.join(verbs)}."
    if (cause := _validation_error(problem)) is not None:
        section = problem.argument.name if problem.argument is not None else ""
        prefix = f"{section.removeprefix('--')}." if section.startswith("--") else ""
        sentences = [_with_prefix(sentence, prefix, settings) for sentence in problem_sentences(cause, Settings)]
        return with_flags("\n".join(sentences), settings)
    sentence = str(problem).strip()
    if isinstance(problem, UnknownOptionError) and (meant := _flag_of_a_training(sentence, argv, settings)):
        return meant
    sentence = sentence.replace('Did you mean "cpu"?', "A GPU is called cuda.") if '"gpu"' in sentence else sentence
    verb = f" {argv[0]}" if argv and argv[0] in verbs else ""
    return f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} See headswap{verb} --help."


def _sentence_with_flags(line: str, settings: Collection[str]) -> str:
    """A name of one word is replaced only where it is the subject of the sentence: elsewhere it may be a plain word."""
    if (subject := SUBJECT.match(line)) is not None:
        named = re.sub(r"[\w.]+", lambda word: _flag(word[0]) if word[0] in settings else word[0], subject[1])
        rest = line[subject.end() :]
        is_one = subject[1] in settings
        line = f"{named}{rest.replace(' = ', ' ', 1) if is_one and rest.startswith(' = ') else rest}"
    names = sorted((name for name in settings if "_" in name), key=len, reverse=True)
    if not names:
        return line
    known = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w'\"./-])(?:{known})(?![\w'\"/-]|\.\w)", lambda found: _flag(found[0]), line)


def _flag(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def _with_prefix(sentence: str, prefix: str, settings: Collection[str]) -> str:
    """`pretrain.max_steps = ...` for `max_steps = ...` of that section."""
    name = sentence.partition(" ")[0]
    return f"{prefix}{sentence}" if prefix and f"{prefix}{name}" in settings else sentence


def _too_many(problem: UnusedCliTokensError, argv: list[str]) -> str:
    unused = problem.unused_tokens or ()
    hint = {
        "generate": "generate takes one prompt, in quotes; with - it reads one prompt per line from standard input.",
        **dict.fromkeys(("predict", "fill", "embed"), "Put a text of several words in quotes."),
    }.get(argv[0], f"See headswap {argv[0]} --help.")
    return f"{listed(unused)} {'is' if len(unused) == 1 else 'are'} not expected. {hint}"


def _missing(argument: "object", argv: list[str]) -> str:
    """A positional argument is named in capitals, as the usage line has it."""
    name = str(getattr(argument, "name", ""))
    is_positional = getattr(argument, "index", None) is not None
    if name in argv:
        return f"{name} needs a value. See headswap {argv[0]} --help."
    plain = name.removeprefix("--").lower()
    shown = f"The argument {ARGUMENTS.get(plain, plain.upper())}" if is_positional else name
    return f"{shown} is missing. See headswap {argv[0]} --help."


def _validation_error(problem: BaseException) -> ValidationError | None:
    cause: BaseException | None = problem
    while cause is not None and not isinstance(cause, ValidationError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _flag_of_a_training(sentence: str, argv: list[str], settings: Collection[str]) -> str | None:
    """For a flag of `pretrain` or `finetune` that a study has with a prefix: its names in a study."""
    if not argv or argv[0] != "study":
        return None
    flag = next((part.partition("=")[0] for part in argv if f": {part.partition('=')[0]}." in sentence), "")
    field = flag.removeprefix("--").replace("-", "_")
    names = [_flag(name) for part in ("pretrain", "adapt", "finetune") if (name := f"{part}.{field}") in settings]
    if not names:
        return None
    return f"Unknown option: {flag}. In a study the flag is {' or '.join(names)}. See headswap study --help."
