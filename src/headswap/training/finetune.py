"""Fine-tuning: a base (or none) and labelled texts in, a run folder with a classifier in it out.

Carries the base over with a ledger, evaluates before the first step and after every epoch, chooses the epoch on
validation, scores test once.
"""

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
from headswap.text.batch import Batch, flat_batch
from headswap.text.checks import findings_of, say_findings
from headswap.text.labelled import Example
from headswap.text.order import rows_of_step, steps_per_epoch
from headswap.training.adaptation import count, freeze, paces_of, say_what_moves
from headswap.training.checkpoint import Progress, best_folder, load_weights_in_place
from headswap.training.config import FinetuneRecipe
from headswap.training.distributed import Processes, start_processes, stop_processes
from headswap.training.drive import Plan, drive
from headswap.training.evaluate import Sequences, classification_metrics, logits_of, make_sequences, warn_of_collapse
from headswap.training.failures import explained
from headswap.training.fitted import finetuning_epochs, finetuning_rate
from headswap.training.machine import Machine
from headswap.training.observer import Observer
from headswap.training.reload import check_reload
from headswap.training.run import Run, open_run
from headswap.training.splits import LabelledSplits, read_splits
from headswap.training.start import Start

log = logging.getLogger("headswap")


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
    recipe.adaptation.check()
    is_scratch = recipe.model.base == "scratch"
    recipe = recipe.changed(model=recipe.model.resolved(), adaptation=recipe.adaptation.resolved(is_scratch=is_scratch))
    machine = Machine(recipe.machine)
    processes = start_processes(machine.device)
    try:
        data = recipe.data
        files = (recipe.model.base, recipe.tokenizer.tokenizer, data.train, data.validation, data.test)
        reads = [name for name in files if name]
        splits = read_splits(recipe)
        start = Start.of(recipe, splits)
        run = processes.from_first(lambda: open_run(out, recipe, overwrite=overwrite, resume=resume, reads=reads))
        if resume and run.is_finished:
            run.check_data(splits.checksums() | start.checksums())
            log.info("%s is finished already; nothing to do.", run.path)
            return run
        try:
            with explained(run.path, recipe.training, processes=processes.world):
                return _Finetuning(recipe, splits, start, run, machine, processes, observer or Observer()).work()
        finally:
            run.release()
    finally:
        stop_processes()


class _Finetuning:
    def __init__(
        self,
        recipe: FinetuneRecipe,
        splits: LabelledSplits,
        start: Start,
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
            max_length=self.max_length, learning_rate=training.learning_rate or finetuning_rate(base.hidden_size)
        )
        if training.max_steps is None and training.num_train_epochs is None:
            epochs = finetuning_epochs(len(splits.train), training.batch_size)
            training = training.changed(num_train_epochs=epochs)
        self.recipe = recipe.changed(training=training)
        self.train, self.validation = self._encoded(splits.train), self._encoded(splits.validation)
        self.latest: dict[str, Any] = {}
        freeze(start.model, recipe.adaptation)

    def work(self) -> Run:
        """Train to the end, score test once, write what came out."""
        training = self.recipe.training
        per_epoch = steps_per_epoch(len(self.train), training.batch_size)
        total = training.max_steps or math.ceil((training.num_train_epochs or 1) * per_epoch)
        self.processes.from_first(self._begin)
        self._say_what_is_trained(total)
        say_what_moves(self.start.model, self.recipe.adaptation, num_epochs=total / per_epoch)
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
            paces=paces_of(self.start.model, self.recipe.adaptation, steps_per_epoch=per_epoch),
            observer=self.observer,
        )
        progress = drive(plan, self.run)
        # All wait for what the first one writes: under torchrun the first process to leave takes the others with it.
        self.processes.from_first(lambda: self._finish(bundle, progress))
        return self.run

    def _begin(self) -> None:
        data = self.splits.checksums() | self.start.checksums()
        self.run.begin(self.recipe, self.machine.environment(self.recipe.training.seed), data)
        self.run.write("ledger.json", self.start.ledger.as_json())

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
            "parameters": dict(zip(("total", "trainable"), count(bundle.model), strict=True)),
            "stopped_early": progress.has_stopped_early,
            "history": progress.history,
        }
        if self.splits.test:
            result["test"] = self._test(bundle)
        else:
            warn_of_collapse(self.latest, role="validation" if len(self.validation) else "train")
        bundle.save(self.run.path / "bundle")
        asked = self.validation if len(self.validation) else self.train
        result["reload_check"] = check_reload(bundle, self.run.path / "bundle", asked.sequences.ids)
        result |= progress.noted()
        self.run.write("result.json", result | self.machine.cost(progress.step, progress.tokens, progress.seconds))

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
        splits.warn_of_overlap()
        say_findings(findings_of({"train": splits.train, "validation": splits.validation, "test": splits.test}), log)
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
