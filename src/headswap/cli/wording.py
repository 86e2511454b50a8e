"""Errors as sentences of the command line: cyclopts' errors in our words, settings by the names of their flags."""

import re
from collections.abc import Collection, Iterable
from itertools import takewhile

from cyclopts import CycloptsError, MissingArgumentError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError
from pydantic import ValidationError

from headswap.cli.help_tables import ARGUMENTS
from headswap.core.errors import did_you_mean, listed
from headswap.core.other_names import ELSEWHERE, settings_called
from headswap.core.settings import Settings, problem_sentences

NAMES_A_FILE = re.compile(r"\([^()]*\.toml\)|config\.json")
TRAININGS = ["pretrain", "adapt", "finetune"]
"""The parts of a study that have settings of their own, with these prefixes."""
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
        missing = _missing(problem.argument, argv)
        if "needs a value" in missing:
            return missing
        given = (token.partition("=")[0] for token in takewhile("--".__ne__, problem.unused_tokens or ()))
        unknown = [flag for flag in given if flag[:1] == "-" and not _is_known(flag, settings)]
        return " ".join([*(_unknown_flag(flag, argv, settings, settings) for flag in unknown), missing])
    if isinstance(problem, UnknownCommandError):
        return f"'{argv[0]}' is not a command.{did_you_mean(argv[0], verbs)} The commands are: {', '.join(verbs)}."
    if (cause := _validation_error(problem)) is not None:
        section = problem.argument.name if problem.argument is not None else ""
        prefix = f"{section.removeprefix('--')}." if section.startswith("--") else ""
        found = problem_sentences(cause, Settings)
        found = [f"{section} {one.removeprefix(' = ')}" if one.startswith(" = ") else one for one in found]
        sentences = [_with_prefix(sentence, prefix, settings) for sentence in found]
        return with_flags("\n".join(sentences), settings)
    sentence = str(problem).strip()
    if isinstance(problem, UnknownOptionError):
        arguments = (argument for argument in problem.argument_collection if argument.parse)
        known = [option.lstrip("-") for argument in arguments for option in argument.names]
        sentence = _unknown_flag(problem.token.keyword or problem.token.value, argv, settings, known)
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


def _is_known(flag: str, settings: Collection[str]) -> bool:
    """Whether a token is a flag of the command, perhaps with `no-`, or a number below 0."""
    name = flag.lstrip("-").replace("-", "_")
    return name in settings or name.removeprefix("no_") in settings or name[:1].isdigit() or not name


def _unknown_flag(token: str, argv: list[str], settings: Collection[str], known: Collection[str]) -> str:
    """The flag, and the one that was meant: by its name in another tool, by a prefix of a study, or a similar one.

    `known` are all options of the command, also those with `no-`.
    """
    given = token.partition("=")[0]
    name = given.lstrip("-").replace("-", "_")
    part, _, field = name.rpartition(".")
    if not any(setting.startswith(f"{part}.") for setting in settings):  # a section of a recipe
        part, name = "", field
    if meant := [name] if name in settings else settings_called(name, settings):
        return f"Unknown option: {given}. Did you mean {_flag(meant[0])}?"
    fields = [field, *settings_called(field, ELSEWHERE)]
    parts = [part] if part else TRAININGS if argv[0] == "study" else []
    if of_trainings := [full for part in parts for field in fields if (full := f"{part}.{field}") in settings]:
        return f"Unknown option: {given}. In a study the flag is {' or '.join(map(_flag, of_trainings))}."
    if len(fields) > 1 or settings_called(field.removeprefix("no_"), ELSEWHERE):
        return f"Unknown option: {given}."  # a setting that this command does not have
    prefix = f"{part}." if part else ""
    names = (option.replace("-", "_") for option in sorted(known))
    hint = did_you_mean(field, [option.removeprefix(prefix) for option in names if option.startswith(prefix)])
    in_dashes = re.sub("'([^']*)'", lambda found: _flag(f"{prefix}{found[1]}"), hint)
    return f"Unknown option: {given}.{in_dashes}"
