"""Fine-tuning: a base (or none) and a labelled set in, a run folder with a model for its task out.

Carries the base over with a ledger, evaluates before the first step and after every epoch, chooses the epoch on
validation, scores test once. What the labels are and how they are scored is the task's business (tasks/).
"""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headswap.batches.labelled_rows import EncodedSet, ExampleBatches
from headswap.batches.order import steps_per_epoch
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import SettingError
from headswap.core.settings import Settings, load_recipe
from headswap.data.checks import findings_of, say_findings
from headswap.defaults import FINETUNE_PATIENCE, finetuning_epochs, finetuning_rate, has_read_enough, moves_gradually
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.layer_rates import count, freeze, paces_of, say_what_moves
from headswap.finetuning.prediction_file import predictions_of
from headswap.finetuning.reload_check import FreshProcess, check_reload
from headswap.finetuning.splits import LabelledSplits, read_splits
from headswap.finetuning.starting_point import Start
from headswap.inference.outputs import outputs_of
from headswap.model.parameter_count import num_parameters
from headswap.training.checkpoint import Progress, best_folder, load_weights_in_place
from headswap.training.device import Machine
from headswap.training.distributed import Processes, start_processes, stop_processes
from headswap.training.failures import explained
from headswap.training.observer import Observer
from headswap.training.run_folder import Run, open_run
from headswap.training.runner import Plan, drive

log = logging.getLogger("headswap")


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
    recipe = recipe.changed(adaptation=recipe.adaptation.resolved(is_scratch=is_scratch))
    machine = Machine(recipe.machine)
    processes = start_processes(machine.device)
    try:
        data = recipe.data
        files = (recipe.model.base, recipe.tokenizer.tokenizer, data.train, data.validation, data.test)
        reads = [name for name in files if name]
        splits = read_splits(recipe)
        recipe = _for_task(recipe, splits)
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


def _for_task(recipe: FinetuneRecipe, splits: LabelledSplits) -> FinetuneRecipe:
    """The recipe with its task and the task's own defaults written out; what has no effect on it is refused."""
    task, data = splits.task, recipe.data
    training = task.resolve(recipe.training)
    task.check_head(recipe.head)
    if data.text_pair_column is not None and training.long != "truncate":
        raise SettingError(f"long is '{training.long}', but pairs of texts can only be truncated. Leave it out.")
    model = recipe.model.resolved("causal" if task.head == "classify" else "bidirectional")
    return recipe.changed(data=data.changed(task=task.name), model=model, training=training)


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
        self.splits, self.start, self.run, self.task = splits, start, run, splits.task
        self.machine, self.processes, self.observer = machine, processes, observer
        base = start.model.shape.base
        machine.settle_precision(base.hidden_size)
        self.max_length = recipe.training.max_length or base.max_position_embeddings
        training = recipe.training.changed(max_length=self.max_length)
        card = {"base": recipe.model.base, "training examples": len(splits.train), "seed": training.seed}
        state = TaskState(
            task=self.task.name,
            max_length=self.max_length,
            long=training.long,
            doc_stride=training.doc_stride,
            max_answer_length=training.max_answer_length,
            reads_pairs=recipe.data.text_pair_column is not None,
        )
        state = self.task.begin(state, splits.train)
        self.bundle = Bundle(start.model, start.tokenizer, splits.labels, start.objective, card, task=state)
        self.train, self.validation = self._encoded(splits.train), self._encoded(splits.validation)
        self.steps_per_epoch = steps_per_epoch(len(self.train.rows), training.batch_size)
        self.recipe, self.total_steps = self._fitted(recipe.changed(training=training))
        self.latest: dict[str, Any] = {}
        freeze(start.model, self.recipe.adaptation)

    def _fitted(self, recipe: FinetuneRecipe) -> tuple[FinetuneRecipe, int]:
        """The recipe with every value that was left to us filled in, and its number of steps."""
        training, model, tokens_read = recipe.training, self.start.model, self.start.tokens_read
        read = None if tokens_read is None else tokens_read / num_parameters(model.base)
        if training.learning_rate is None:
            if read and not has_read_enough(read):
                log.info("The base has read only %.2g tokens a parameter, so it may move fast.", read)
            rate = finetuning_rate(model.shape.base.hidden_size, tokens_a_parameter=read)
            training = training.changed(learning_rate=rate)
        if training.max_steps is None and training.num_train_epochs is None:
            epochs = finetuning_epochs(len(self.train.rows), training.batch_size)
            patience = training.early_stopping_patience or FINETUNE_PATIENCE
            training = training.changed(num_train_epochs=epochs, early_stopping_patience=patience)
        steps = training.max_steps or math.ceil((training.num_train_epochs or 1) * self.steps_per_epoch)
        num_epochs, num_layers = steps / self.steps_per_epoch, model.shape.base.num_hidden_layers
        is_gradual = moves_gradually(num_epochs, num_layers, tokens_a_parameter=read)
        adaptation, head = recipe.adaptation.fitted(is_gradual=is_gradual), recipe.head
        if self.task.head == "classify":
            head = head.changed(pooling=model.shape.classifier.pooling)
        return recipe.changed(training=training, adaptation=adaptation, head=head), steps

    def work(self) -> Run:
        """Train to the end, score test once, write what came out."""
        training = self.recipe.training
        per_epoch, total = self.steps_per_epoch, self.total_steps
        self.processes.from_first(self._begin)
        self._say_what_is_trained(total)
        say_what_moves(self.start.model, self.recipe.adaptation, num_epochs=total / per_epoch)
        is_per_token = self.task.head != "classify"
        plan = Plan(
            bundle=self.bundle,
            objective=self.task.objective(training, self.train, self.splits.labels),
            source=ExampleBatches(self.train.rows, training.batch_size, training.seed, is_per_token),
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
        self.processes.from_first(lambda: self._finish(self.bundle, progress))
        return self.run

    def _begin(self) -> None:
        data = self.splits.checksums() | self.start.checksums()
        self.run.begin(self.recipe, self.machine.environment(self.recipe.training.seed), data)
        self.run.write("ledger.json", self.start.ledger.as_json())

    def _finish(self, bundle: Bundle, progress: Progress) -> None:
        if progress.best_step is not None:
            load_weights_in_place(bundle.model, best_folder(self.run.path / "checkpoints", progress))
        if len(self.validation):
            bundle = self.task.choose(self._outputs(bundle, self.validation), self.validation, bundle)
        chosen_step = progress.best_step or progress.step
        chosen = next(line for line in reversed(progress.history) if line["step"] == chosen_step)
        if progress.best_step is not None:
            self._say_what_is_chosen(chosen["epoch"], progress.history[-1]["epoch"])
        result: dict[str, Any] = {
            "verb": "finetune",
            "task": self.task.name,
            "base": str(self.recipe.model.base),
            "num_train": len(self.train),
            "num_validation": len(self.validation),
            "best_epoch": chosen["epoch"],
            "truncated_share": self.train.truncated_share,
            "truncated_shares": {
                "train": self.train.truncated_share,
                "validation": self.validation.truncated_share if len(self.validation) else None,
                "test": None,
            },
            "parameters": dict(zip(("total", "trainable"), count(bundle.model), strict=True)),
            "stopped_early": progress.has_stopped_early,
            "history": progress.history,
        }
        with FreshProcess() as reader:
            if self.splits.test:
                result["test"] = self._test(bundle)
                result["truncated_shares"]["test"] = result["test"]["truncated_share"]
            elif self.latest:
                self.task.warn(self.latest, role="validation" if len(self.validation) else "train")
            bundle.save(self.run.path / "bundle")
            asked = self.validation if len(self.validation) else self.train
            result["reload_check"] = check_reload(reader, bundle, self.run.path / "bundle", asked.rows)
        result |= progress.noted()
        self.run.write("result.json", result | self.machine.cost(progress.step, progress.tokens, progress.seconds))

    def _encoded(self, examples: Sequence[Any]) -> EncodedSet:
        return self.task.encode(examples, self.bundle)

    def _outputs(self, bundle: Bundle, encoded: EncodedSet) -> list[Any]:
        return outputs_of(bundle.model, encoded.rows, autocast=self.machine.scoring())

    def _evaluate(self, step: int) -> dict[str, Any]:
        """Validation if there is one; else how well the training set itself is fitted."""
        prefix, examples = ("eval", self.validation) if len(self.validation) else ("train", self.train)
        outputs, bundle = self._outputs(self.bundle, examples), self.bundle
        if prefix == "eval":
            bundle = self.task.choose(outputs, examples, bundle)
        self.latest = self.task.measure(outputs, examples, bundle)
        names = (*self.task.shown, "loss") if prefix == "eval" else self.task.shown
        wanted = self.recipe.training.metric_for_best_model
        if prefix == "eval" and wanted and wanted not in names:
            names = (wanted, *names)
        return {f"{prefix}_{name}": self.latest[name] for name in names}

    def _score(self, metrics: dict[str, Any]) -> list[float]:
        """Higher is better."""
        assert self.recipe.training.metric_for_best_model is not None
        return self.task.score(metrics, self.recipe.training.metric_for_best_model)

    def _test(self, bundle: Bundle) -> dict[str, Any]:
        test = self._encoded(self.splits.test)
        outputs = self._outputs(bundle, test)
        metrics = self.task.measure(outputs, test, bundle, is_final=True)
        self.task.warn(metrics, role="test")
        self._say_how_it_was_read("test", test)
        if self.task.name == "classify":
            answers = self.task.answers(outputs, test, bundle)
            predictions_of(answers, self.splits.test, bundle.labels).save(self.run.path)
        return metrics | {"truncated_share": test.truncated_share}

    def _say_what_is_chosen(self, epoch: float, num_epochs: float) -> None:
        assert self.recipe.training.metric_for_best_model is not None
        metric = self.recipe.training.metric_for_best_model.replace("_", " ").replace("f1", "F1")
        log.info("Best epoch %.3g of %.3g by validation %s: its weights are kept.", epoch, num_epochs, metric)

    def _say_how_it_was_read(self, role: str, encoded: EncodedSet) -> None:
        """What did not fit, or had to be cut, of a set."""
        if role != "train" and len(encoded):
            share, limit = 100 * encoded.truncated_share, self.max_length
            log.info("%.1f %% of the %s tokens cut off at %d a %s.", share, role, limit, self.task.noun)
        for note in encoded.notes:
            log.info("Of the %s set: %s.", role, note)

    def _say_what_is_trained(self, total_steps: int) -> None:
        splits, cut = self.splits, self.train.truncated_share
        if not splits.validation:
            few = len(splits.train)
            log.info("%d labels are too few to choose on: the epochs are fixed and the last weights are kept.", few)
        elif self.recipe.data.validation is None:
            log.info(
                "No validation set is given: %d training examples are held out to choose on.", len(splits.validation)
            )
        splits.warn_of_overlap()
        if self.task.head != "classify" and self.start.model.shape.direction == "causal":
            log.info("This base reads from left to right, so each word is judged without what follows it.")
        say_findings(findings_of({"train": splits.train, "validation": splits.validation, "test": splits.test}), log)
        log.info("Ledger: %s.", self.start.ledger.sentence())
        log.info(
            "%s%d train, %d validation, %d test; %.1f %% of the training tokens cut off at %d a %s.",
            "" if self.task.name in ("regress", "span") else f"{len(splits.labels)} labels, ",
            len(splits.train), len(splits.validation), len(splits.test), 100 * cut, self.max_length, self.task.noun,
        )  # fmt: skip
        self._say_how_it_was_read("train", self.train)
        self._say_how_it_was_read("validation", self.validation)
        log.info(
            "Fine-tuning for %s steps of %d texts on %s, learning rate %g.",
            f"{total_steps:,}", self.recipe.training.batch_size, self.machine.describe(),
            self.recipe.training.learning_rate,
        )  # fmt: skip
