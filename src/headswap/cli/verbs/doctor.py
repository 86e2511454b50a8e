"""`headswap doctor`."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import Field

from headswap.cli.flags import Data, Output, OutputFlags, refuse_hidden
from headswap.data.config import DocumentUnit, LabelledSettings, ReadSettings
from headswap.model.shape import Preset

ROLES = ("train", "validation", "test")


class CheckedSets(LabelledSettings):
    """The labelled sets to check."""

    validation: str | None = None
    """Labelled validation set to check, in one of the same formats."""
    test: str | None = None
    """Labelled test set to check, in one of the same formats."""
    group_column: str | None = None
    """Name of the column with the author, patient or thread of each text (tasks classify, multilabel and regress). A
    group in two sets is reported as a problem. Default: none."""
    num_train: Annotated[int, Field(ge=2)] | None = None
    """Not used: all examples are checked."""


def doctor(
    bundle: str | None = None,
    /,
    *,
    corpus: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    tokenizer: str | None = None,
    documents: DocumentUnit = "auto",
    max_length: int | None = None,
    preset: Preset | None = None,
    data: Annotated[CheckedSets | None, Data] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> int:
    """Check data before training, or a saved model before use.

    Data are checked for duplicates, conflicting labels, overlap between the sets, words that reveal the label, and
    more. For a saved model, the checks are whether it is complete and whether its outputs are the same as when it was
    saved. The command reports problems, warnings and notes. The exit code is 1 if there is a problem; warnings and
    notes do not change it.

    Example: headswap doctor --train train.csv --test test.csv --corpus reviews.txt

    Example: headswap doctor runs/base

    Parameters
    ----------
    bundle
        Bundle, run folder, installed base (box:NAME) or token store to check.
    corpus
        Unlabelled text to check: files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a token store
        or a named data set (see headswap datasets).
    tokenizer
        A tokenizer.json, a bundle or run folder, an installed base (box:NAME), a token store, or a dict.txt. With it,
        the number of tokens per word and the shares of unknown and of truncated tokens are reported too.
    documents
        How a plain text corpus is split into documents: line, paragraph, file (the whole file is one document), or auto
        (paragraph if at least 10 % of the lines are blank, otherwise line).
    max_length
        Number of tokens above which a text counts as truncated. Default: the context length of the model given as
        --tokenizer, otherwise that of --preset.
    preset
        Shape of the base that you plan to pre-train: lab, small, modern, llama, gpt2-small or bert-base. A corpus that
        is too small for its number of parameters is reported. Default: the shape of the model given as --tokenizer,
        otherwise small.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.core.errors import SettingError
    from headswap.data.documents import has_columns

    start_messages(quiet=True)
    refuse_hidden("doctor", data)
    given = data or LabelledSettings()
    roles = [role for role in ROLES if getattr(given, role) is not None]
    if bundle is None and not (roles or corpus):
        raise SettingError("Nothing is given to check. Pass a bundle, --train, --validation, --test or --corpus.")
    if max_length is not None and max_length < 2:
        raise SettingError(f"--max-length {max_length} is not allowed: it should be at least 2.")
    report: dict[str, Any] = {}
    if bundle is not None:
        report |= _check_folder(bundle)
    if roles or corpus:
        settings = ReadSettings(documents=documents, text_column=given.text_column)
        if roles and not has_columns(corpus or ()):  # then --text-column names the column of the labelled sets
            settings = ReadSettings(documents=documents)
        report |= _check_texts(given, corpus, settings, tokenizer, max_length=max_length, preset=preset)
    problems = [check for check in report.get("checks", []) if not check["is_sound"]]
    problems += [issue for issue in report.get("findings", []) if issue["level"] == "problem"]
    report["problems"] = len(problems)
    if flags.json:
        print_json(report)
    else:
        _print(report)
    return 1 if problems else 0


def _check_folder(name: str) -> dict[str, Any]:
    from pathlib import Path

    from headswap.bundle.check import Check, check_bundle
    from headswap.core.errors import HeadswapError, SettingError
    from headswap.data.columns import COLUMN_EXTENSIONS
    from headswap.data.open_text import extension_of
    from headswap.data.tagged import CONLL_EXTENSIONS
    from headswap.tokens.store import TokenStore, is_store

    if Path(name).is_file():
        flag = "train" if extension_of(Path(name)) in COLUMN_EXTENSIONS | CONLL_EXTENSIONS else "corpus"
        raise SettingError(f"{name} is a file, neither a bundle nor a token store. To check data pass --{flag} {name}.")
    if not is_store(name):
        return {"bundle": name, "checks": [check.as_json() for check in check_bundle(name)]}
    try:
        store = TokenStore.open(Path(name))
        store.verify()
        check = Check(
            "token store", True, f"{store.num_documents:,} documents, {store.num_tokens:,} tokens; all checksums match"
        )
    except HeadswapError as problem:
        check = Check("token store", False, str(problem))
    return {"store": name, "checks": [check.as_json()]}


def _check_texts(
    data: LabelledSettings,
    corpus: tuple[str, ...],
    settings: ReadSettings,
    tokenizer: str | None,
    *,
    max_length: int | None,
    preset: Preset | None,
) -> dict[str, Any]:
    from headswap.data.doctor import examine_data
    from headswap.data.documents import read_documents
    from headswap.data.groups import group_issues
    from headswap.tokens.store import is_store
    from headswap.tokens.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer) if tokenizer else None
    limit, parameters = _base(tokenizer, preset, loaded.vocab_size if loaded else None)
    task, labelled = _labelled(data)
    texts = None
    if corpus:
        if not (len(corpus) == 1 and is_store(corpus[0])):
            read_documents(corpus, settings)  # a missing file is wrong use, not an issue of the data
        texts = partial(_texts, corpus, settings)
    diagnosis = examine_data(
        texts, labelled, tokenizer=loaded, max_length=max_length or limit,
        num_parameters=parameters if corpus else None, labels_of=task.labels, check=task.check,
    )  # fmt: skip
    sets = {role: found for role, found in labelled.items() if isinstance(found, list)}
    diagnosis.issues += group_issues(sets) if data.group_column is not None else []
    return diagnosis.as_json() | {"max_length": max_length or limit}


def _labelled(data: LabelledSettings) -> tuple[Any, dict[str, Any]]:
    """The task that the first set implies; each set, or the error that prevents reading it."""
    from headswap.core.errors import InputError
    from headswap.tasks.choose import chosen_task, named_task

    files = {role: getattr(data, role) for role in ROLES if getattr(data, role) is not None}
    task = named_task(data.task)
    if files:
        try:
            task = chosen_task(data.changed(train=next(iter(files.values()))))
        except InputError:
            task = named_task(data.task)  # the error is found again when the file is read
    task.check_columns(data)
    label_files = {"train": data.label_file, "validation": data.validation_label_file, "test": data.test_label_file}
    labelled: dict[str, Any] = {}
    for role, name in files.items():
        try:
            labelled[role] = task.read(name, data, label_files[role])
        except InputError as problem:
            labelled[role] = problem
    return task, labelled


def _texts(corpus: tuple[str, ...], settings: ReadSettings) -> Iterator[str]:
    """The texts of the documents; those of a token store are decoded."""
    from pathlib import Path

    from headswap.data.documents import read_documents
    from headswap.tokens.store import TokenStore, is_store

    if len(corpus) == 1 and is_store(corpus[0]):
        return TokenStore.open(Path(corpus[0])).texts()
    return (document.text for document in read_documents(corpus, settings))


def _base(tokenizer: str | None, preset: Preset | None, vocab_size: int | None) -> tuple[int, int]:
    """Length limit and number of parameters of the intended base: that of a bundle, or of a preset."""
    from pathlib import Path

    from headswap.bundle.bundle import CONFIG, Bundle
    from headswap.core.installed_bases import base_folder, is_boxed
    from headswap.model.parameter_count import count_parameters, count_parameters_of_shape
    from headswap.model.shape import DEFAULT_PRESET, PRESET_VOCAB_SIZES, ModelSettings

    place = base_folder(tokenizer) if tokenizer and is_boxed(tokenizer) else Path(tokenizer or "")
    for folder in (place, place / "bundle") if tokenizer and preset is None else ():
        if (folder / CONFIG).is_file():
            bundle = Bundle.load(folder)
            return bundle.max_length, count_parameters(bundle.model).total
    name = preset or DEFAULT_PRESET
    shape = ModelSettings(preset=name).shape(vocab_size=vocab_size or PRESET_VOCAB_SIZES[name])
    return shape.max_position_embeddings, count_parameters_of_shape(shape, None).total


def _print(report: dict[str, Any]) -> None:
    from headswap.cli.display import print_text
    from headswap.core.errors import counted

    for check in report.get("checks", []):
        print_text(f"{'ok' if check['is_sound'] else 'PROBLEM':8} {check['name']}: {check['message']}")
    for name, one in report.get("sets", {}).items():
        print_text(f"{name}: {_summary(one)}")
    order = {"problem": 0, "warning": 1, "note": 2}
    issues = sorted(report.get("findings", []), key=lambda issue: order[issue["level"]])
    for issue in issues:
        level = issue["level"].upper() if issue["level"] == "problem" else issue["level"]
        print_text(f"{level:8} {issue['set']}: {issue['message']}")
    warnings = sum(issue["level"] == "warning" for issue in issues)
    verdict = counted(report["problems"], "problem") if report["problems"] else "no problems"
    print_text(f"Verdict: {verdict}{', ' + counted(warnings, 'warning') if warnings else ''}.")


def _summary(one: dict[str, Any]) -> str:
    """The statistics of a set in one line."""
    parts = [f"{one['num_texts']:,} texts, {one['num_words']:,} words"]
    if "num_tokens" in one:
        parts.append(f"{one['num_tokens']:,} tokens ({one.get('tokens_per_word', 0):.2f} per word, "
                     f"{one.get('unknown_rate', 0):.2%} unknown)")  # fmt: skip
    for what in ("labels", "tags"):
        if names := one.get(what):
            shown = ", ".join(f"{name or '(none)'} {number:,}" for name, number in list(names.items())[:6])
            parts.append(f"{len(names)} {what} ({shown}{', ...' if len(names) > 6 else ''})")
    if lengths := one.get("lengths"):
        median, most = next(iter(lengths.items())), list(lengths.items())[-1]
        unit = median[0].split("_")[0]
        p99 = lengths.get(f"{unit}_p99", most[1])
        parts.append(f"{unit} per text: median {median[1]:,.0f}, 99 % quantile {p99:,.0f}, maximum {most[1]:,.0f}")
    if "truncated_tokens" in one:
        parts.append(f"{one['truncated_tokens']:.1%} of the tokens truncated")
    if scripts := one.get("scripts"):
        parts.append(", ".join(f"{script} {share:.0%}" for script, share in scripts.items() if share >= 0.005))
    return "; ".join(parts)
