"""Fine-tuning: a base (or none) and labelled texts in, a run folder with a classifier in it out.

Carries the base over with a ledger, evaluates before the first step and after every epoch, chooses the epoch on
validation, scores test once.
"""

import hashlib
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headswap.bundle import Bundle
from headswap.core.config import Settings, load_recipe
from headswap.core.errors import SettingError
from headswap.model.objectives import ClassificationObjective
from headswap.model.swap import Ledger, scratch_ledger, swap_head
from headswap.model.text_model import ModelShape, TextModel, build_model
from headswap.text.batch import Batch, flat_batch
from headswap.text.datasets import is_named, named_splits
from headswap.text.labelled import (
    Example,
    check_labels,
    label_names,
    read_labelled,
    stratified_split,
    stratified_subset,
)
from headswap.text.order import rows_of_step, steps_per_epoch
from headswap.text.records import Document
from headswap.text.tokenizer import Tokenizer
from headswap.text.train_tokenizer import train_tokenizer
from headswap.training.checkpoint import Progress, best_folder, load_weights_in_place
from headswap.training.config import FinetuneRecipe, StartSettings
from headswap.training.distributed import Processes, start_processes, stop_processes
from headswap.training.drive import Plan, drive
from headswap.training.evaluate import Sequences, classification_metrics, logits_of, make_sequences, warn_of_collapse
from headswap.training.fitted import finetuning_epochs, finetuning_rate
from headswap.training.machine import Machine
from headswap.training.observer import Observer
from headswap.training.pretrain import check_untrained, cost
from headswap.training.run import Run, open_run

log = logging.getLogger("headswap")
FEWEST_FOR_CHOOSING = 200
VALIDATION_SHARE = 0.2
SHAPE_SETTINGS = tuple(name for name in StartSettings.model_fields if name not in ("base", "dropout"))


@dataclass(frozen=True)
class LabelledSplits:
    """The labelled sets of a run; `validation` is empty where nothing is chosen."""

    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    labels: tuple[str, ...]

    def checksums(self) -> dict[str, str]:
        """What identifies each set's texts and labels."""
        sets = {"training set": self.train, "validation set": self.validation, "test set": self.test}
        return {name: _checksum(examples) for name, examples in sets.items()}


def _checksum(examples: Sequence[Example]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example.text}\x1f{example.label}\x1e".encode())
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class EncodedSet:
    """Token sequences with label numbers."""

    sequences: Sequences
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class ExampleBatches:
    """Batches of labelled texts as a pure function of the step."""

    examples: EncodedSet
    batch_size: int
    seed: int

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The examples of a step, cut into at most `count` parts."""
        rows = rows_of_step(step, num_rows=len(self.examples), batch_size=self.batch_size, seed=self.seed)
        return [
            flat_batch(
                [self.examples.sequences.ids[row] for row in part],
                target_index=np.arange(len(part)),
                target_value=self.examples.targets[part],
                documents=part.tolist(),
            )
            for part in np.array_split(rows, count)
            if len(part)
        ]


def finetune(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
) -> Run:
    """Fine-tune as a recipe and the given sections say; return the run."""
    recipe = load_recipe(FinetuneRecipe, Path(config) if config else None, sections)
    if recipe.data.train is None:
        raise SettingError("No training set is given. Pass --train FILE.")
    if recipe.model.base is None:
        raise SettingError("No base is given. Pass --base RUN (a bundle or a run folder), or --base scratch.")
    machine = Machine(recipe.machine)
    processes = start_processes(machine.device)
    try:
        data = recipe.data
        files = (recipe.model.base, recipe.tokenizer.tokenizer, data.train, data.validation, data.test)
        reads = [name for name in files if name]
        splits = read_splits(recipe)
        start = _Start.of(recipe, splits)
        run = processes.from_first(lambda: open_run(out, recipe, overwrite=overwrite, resume=resume, reads=reads))
        if run.is_finished:
            run.check_data(splits.checksums())
            log.info("%s is finished already; nothing to do.", run.path)
            return run
        return _Finetuning(recipe, splits, start, run, machine, processes, observer or Observer()).work()
    finally:
        stop_processes()


def read_splits(recipe: FinetuneRecipe) -> LabelledSplits:
    """Read and check the labelled sets; the label list comes from train alone."""
    data, seed = recipe.data, recipe.training.seed
    assert data.train is not None
    columns = {"text_column": data.text_column, "label_column": data.label_column}
    train = read_labelled(data.train, label_file=data.label_file, **columns)
    if data.num_train is not None:
        if data.num_train > len(train):
            raise SettingError(f"num_train is {data.num_train}, but {data.train} has only {len(train)} examples.")
        train = [train[index] for index in stratified_subset(train, data.num_train, seed)]
    labels = tuple(label_names(train))
    validation: list[Example] = []
    if data.validation is not None:
        validation = read_labelled(data.validation, label_file=data.validation_label_file, **columns)
        check_labels(validation, labels, role="validation")
    elif len(train) >= FEWEST_FOR_CHOOSING:
        rest, held_out = stratified_split(train, VALIDATION_SHARE, seed)
        train, validation = [train[index] for index in rest], [train[index] for index in held_out]
    test: list[Example] = []
    test_source = data.test
    if test_source is None and is_named(data.train) and "test" in named_splits(data.train) and "/" not in data.train:
        test_source = f"{data.train}/test"
    if test_source is not None:
        test = read_labelled(test_source, label_file=data.test_label_file, **columns)
        check_labels(test, labels, role="test")
    return LabelledSplits(train, validation, test, labels)


@dataclass(frozen=True)
class _Start:
    """The model a run starts from, its tokenizer, and the account of what was carried over."""

    model: TextModel
    tokenizer: Tokenizer
    ledger: Ledger
    objective: str

    @classmethod
    def of(cls, recipe: FinetuneRecipe, splits: LabelledSplits) -> "_Start":
        return cls._scratch(recipe, splits) if recipe.model.base == "scratch" else cls._carried(recipe, splits)

    @classmethod
    def _scratch(cls, recipe: FinetuneRecipe, splits: LabelledSplits) -> "_Start":
        if recipe.tokenizer.tokenizer is not None:
            check_untrained(recipe.tokenizer, f"--tokenizer {recipe.tokenizer.tokenizer} is given")
            tokenizer = Tokenizer.load(recipe.tokenizer.tokenizer)
        else:
            documents = (Document(example.text, example.source, example.line) for example in splits.train)
            tokenizer = train_tokenizer(documents, recipe.tokenizer)
        base = recipe.model.shape(vocab_size=tokenizer.vocab_size, max_length=recipe.training.max_length)
        direction = recipe.model.direction or "causal"
        shape = ModelShape(
            base=base, direction=direction, head="classify", num_labels=len(splits.labels), classifier=recipe.head
        )
        model = build_model(shape, seed=recipe.training.seed)
        return cls(model, tokenizer, scratch_ledger(model), direction)

    @classmethod
    def _carried(cls, recipe: FinetuneRecipe, splits: LabelledSplits) -> "_Start":
        assert recipe.model.base is not None
        given = [
            name for name in SHAPE_SETTINGS if name in recipe.model.model_fields_set and getattr(recipe.model, name)
        ]
        bundle = Bundle.load(recipe.model.base)
        if given:
            raise SettingError(
                f"{', '.join(given)}: a base that is carried over has its own. Leave it out, or use --base scratch."
            )
        if recipe.tokenizer.tokenizer is not None:
            wanted = Tokenizer.load(recipe.tokenizer.tokenizer).fingerprint
            if wanted != bundle.tokenizer.fingerprint:
                raise SettingError(
                    f"{recipe.tokenizer.tokenizer} (fingerprint {wanted}) is not the tokenizer of {recipe.model.base} "
                    f"(fingerprint {bundle.tokenizer.fingerprint}). Leave --tokenizer out: a base brings its own."
                )
        check_untrained(recipe.tokenizer, f"the base {recipe.model.base} brings its own tokenizer")
        length = recipe.training.max_length
        if length is not None and length > bundle.max_length:
            raise SettingError(f"max_length is {length}, but the base reads at most {bundle.max_length} tokens.")
        base = bundle.model.shape.base
        if recipe.model.dropout is not None:
            base = base.changed(dropout=recipe.model.dropout)
        shape = ModelShape(
            base=base,
            direction=bundle.model.shape.direction,
            head="classify",
            num_labels=len(splits.labels),
            classifier=recipe.head,
        )
        model, ledger = swap_head(bundle.model, shape, seed=recipe.training.seed, source=str(recipe.model.base))
        return cls(model, bundle.tokenizer, ledger, bundle.objective)


class _Finetuning:
    def __init__(
        self,
        recipe: FinetuneRecipe,
        splits: LabelledSplits,
        start: _Start,
        run: Run,
        machine: Machine,
        processes: Processes,
        observer: Observer,
    ) -> None:
        self.splits, self.start, self.run = splits, start, run
        self.machine, self.processes, self.observer = machine, processes, observer
        base = start.model.shape.base
        training = recipe.training
        self.max_length = training.max_length or base.max_position_embeddings
        training = training.changed(
            max_length=self.max_length,
            learning_rate=training.learning_rate or finetuning_rate(base.hidden_size),
            num_train_epochs=training.num_train_epochs or finetuning_epochs(len(splits.train), training.batch_size),
        )
        self.recipe = recipe.changed(training=training)
        self.train, self.validation = self._encoded(splits.train), self._encoded(splits.validation)
        self.latest: dict[str, Any] = {}

    def work(self) -> Run:
        """Train to the end, score test once, write what came out."""
        training = self.recipe.training
        per_epoch = steps_per_epoch(len(self.train), training.batch_size)
        total = training.max_steps or math.ceil((training.num_train_epochs or 1) * per_epoch)
        if self.processes.is_first:
            data = self.splits.checksums() | {"tokenizer": self.start.tokenizer.fingerprint}
            self.run.begin(self.recipe, self.machine.environment(training.seed), data)
            self.run.write("ledger.json", self.start.ledger.as_json())
        self._say_what_is_trained(total)
        card = {"base": self.recipe.model.base, "training examples": len(self.train), "seed": training.seed}
        bundle = Bundle(self.start.model, self.start.tokenizer, self.splits.labels, self.start.objective, card)
        plan = Plan(
            bundle=bundle,
            objective=ClassificationObjective(label_smoothing=training.label_smoothing_factor),
            source=ExampleBatches(self.train, training.batch_size, training.seed),
            settings=training,
            machine=self.machine,
            processes=self.processes,
            total_steps=total,
            steps_per_epoch=per_epoch,
            evaluate=self._evaluate,
            evaluate_every=per_epoch,
            save_every=training.save_steps,
            score=self._score if len(self.validation) else None,
            patience=training.early_stopping_patience,
            observer=self.observer,
        )
        progress = drive(plan, self.run)
        # All wait for what the first one writes: under torchrun the first process to leave takes the others with it.
        self.processes.from_first(lambda: self._finish(bundle, progress))
        return self.run

    def _finish(self, bundle: Bundle, progress: Progress) -> None:
        if progress.best_step is not None:
            load_weights_in_place(bundle.model, best_folder(self.run.path / "checkpoints", progress))
        chosen_step = progress.best_step or progress.step
        chosen = next(line for line in reversed(progress.history) if line["step"] == chosen_step)
        result: dict[str, Any] = {
            "verb": "finetune",
            "base": str(self.recipe.model.base),
            "num_train": len(self.train),
            "num_validation": len(self.validation),
            "best_epoch": chosen["epoch"],
            "truncated_share": self.train.sequences.truncated_share,
            "stopped_early": progress.has_stopped_early,
            "history": progress.history,
        }
        if self.splits.test:
            result["test"] = self._test(bundle)
        else:
            warn_of_collapse(self.latest, role="validation" if len(self.validation) else "train")
        bundle.save(self.run.path / "bundle")
        self.run.write("result.json", result | cost(progress.step, progress.tokens, progress.seconds, self.machine))

    def _encoded(self, examples: Sequence[Example]) -> EncodedSet:
        sequences = make_sequences(
            [example.text for example in examples], self.start.tokenizer, max_length=self.max_length
        )
        numbers = {label: number for number, label in enumerate(self.splits.labels)}
        return EncodedSet(sequences, np.array([numbers[example.label] for example in examples], dtype=np.int64))

    def _evaluate(self, step: int) -> dict[str, Any]:
        """Validation if there is one; else how well the training set itself is fitted."""
        prefix, examples = ("eval", self.validation) if len(self.validation) else ("train", self.train)
        logits = logits_of(self.start.model, examples.sequences.ids, autocast=self.machine.autocast())
        metrics = classification_metrics(logits, examples.targets, self.splits.labels)
        self.latest = metrics
        names = ("accuracy", "macro_f1", "loss") if prefix == "eval" else ("accuracy", "macro_f1")
        return {f"{prefix}_{name}": metrics[name] for name in names}

    def _score(self, metrics: dict[str, Any]) -> list[float]:
        """Higher is better; a small validation set has many ties, which the loss decides."""
        name = self.recipe.training.metric_for_best_model
        return [-metrics["eval_loss"]] if name == "loss" else [metrics[f"eval_{name}"], -metrics["eval_loss"]]

    def _test(self, bundle: Bundle) -> dict[str, Any]:
        test = self._encoded(self.splits.test)
        logits = logits_of(bundle.model, test.sequences.ids, autocast=self.machine.autocast())
        metrics = classification_metrics(logits, test.targets, self.splits.labels)
        warn_of_collapse(metrics, role="test")
        return metrics | {"truncated_share": test.sequences.truncated_share}

    def _say_what_is_trained(self, total_steps: int) -> None:
        splits, cut = self.splits, self.train.sequences.truncated_share
        if not splits.validation:
            few = len(splits.train)
            log.info("%d labels are too few to choose on: the epochs are fixed and the last weights are kept.", few)
        elif self.recipe.data.validation is None:
            log.info(
                "No validation set is given: %d training examples are held out to choose on.", len(splits.validation)
            )
        known = {example.text for example in splits.train}
        for role, examples in (("validation", splits.validation), ("test", splits.test)):
            if num := sum(example.text in known for example in examples):
                log.warning("%d %s texts also stand in train, so the score on them says little.", num, role)
        log.info("Ledger: %s.", self.start.ledger.sentence())
        log.info(
            "%s labels, %d train, %d validation, %d test; %.1f %% of the training tokens cut off at %d a text.",
            len(splits.labels), len(splits.train), len(splits.validation), len(splits.test), 100 * cut, self.max_length,
        )  # fmt: skip
        log.info(
            "Fine-tuning for %s steps of %d texts on %s, learning rate %g.",
            f"{total_steps:,}", self.recipe.training.batch_size, self.machine.describe(),
            self.recipe.training.learning_rate,
        )  # fmt: skip
