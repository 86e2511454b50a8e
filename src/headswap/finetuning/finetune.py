"""Fine-tuning: a base (or none) and a labelled set in, a run folder with a model for its task out.

Carries the base over with a ledger, evaluates before the first step and after every epoch, chooses the epoch on
validation, scores test once. What the labels are and how they are scored is the task's business (tasks/).
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headswap.baselines.registry import task_baselines
from headswap.batches.labelled_rows import EncodedSet, ExampleBatches
from headswap.batches.order import steps_per_epoch
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import SettingError
from headswap.core.settings import Settings, load_recipe
from headswap.data.checks import findings_of, log_findings
from headswap.defaults import FinetuningFacts, resolve_finetuning, resolve_start
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.layer_rates import count, freeze, group_rates, report_trainable
from headswap.finetuning.prediction_file import predictions_of
from headswap.finetuning.reload_check import FreshProcess, check_reload
from headswap.finetuning.splits import read_splits
from headswap.finetuning.starting_point import StartingPoint
from headswap.inference.outputs import outputs_of
from headswap.model.parameter_count import num_parameters
from headswap.tasks.task import Task
from headswap.training.checkpoint import Progress, best_folder, load_weights_in_place
from headswap.training.observer import Observer
from headswap.training.run_folder import RunFolder
from headswap.training.runner import Context, Plan, run_steps, run_training

log = logging.getLogger("headswap")


def finetune(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
    with_baselines: bool = True,
) -> RunFolder:
    """Fine-tune as a recipe and the given sections say; return the run. A study fits its own baselines."""
    recipe = load_recipe(FinetuneRecipe, Path(config) if config else None, sections)
    if recipe.data.train is None:
        raise SettingError("No training set is given. Pass --train FILE.")
    if recipe.model.base is None:
        raise SettingError("No base is given. Pass --base RUN (a bundle or a run folder), or --base scratch.")
    recipe.adaptation.check(is_scratch=recipe.model.base == "scratch")
    data = recipe.data
    return run_training(
        recipe,
        lambda context: _Finetuning(recipe, context, with_baselines=with_baselines),
        out=out,
        reads=(recipe.model.base, recipe.tokenizer.tokenizer, data.train, data.validation, data.test),
        overwrite=overwrite,
        resume=resume,
        observer=observer,
    )


def for_task(recipe: FinetuneRecipe, task: Task) -> FinetuneRecipe:
    """The recipe with its task and the task's own defaults filled in; settings without effect are refused."""
    training, data = task.resolve(recipe.training), recipe.data
    task.check_pooling(recipe.head.pooling)
    if data.text_pair_column is not None and training.long != "truncate":
        raise SettingError(f"long is '{training.long}', but pairs of texts can only be truncated. Leave it out.")
    recipe = recipe.changed(data=data.changed(task=task.name), training=training)
    return resolve_start(recipe, direction=task.direction)


class _Finetuning:
    def __init__(self, recipe: FinetuneRecipe, context: Context, *, with_baselines: bool) -> None:
        self.with_baselines = with_baselines
        self.run, self.machine = context.run, context.machine
        self.processes, self.observer = context.processes, context.observer
        self.splits = splits = read_splits(recipe)
        self.task = splits.task
        recipe = for_task(recipe, self.task)
        self.start = start = StartingPoint.of(recipe, splits)
        base = start.model.shape.base
        self.machine.settle_precision(base.hidden_size)
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
        state = self.task.initial_state(state, splits.train)
        self.bundle = Bundle(
            start.model, start.tokenizer, splits.labels, start.objective, card, task=state,
            problem_type=self.task.problem_type,
        )  # fmt: skip
        self.train, self.validation = self._encoded(splits.train), self._encoded(splits.validation)
        self.steps_per_epoch = steps_per_epoch(len(self.train.rows), training.batch_size)
        self.recipe, self.total_steps = resolve_finetuning(recipe.changed(training=training), self._facts())
        self.latest: dict[str, Any] = {}
        freeze(start.model, self.recipe.adaptation)

    def _facts(self) -> FinetuningFacts:
        model, tokens = self.start.model, self.start.tokens_trained
        return FinetuningFacts(
            hidden_size=model.shape.base.hidden_size,
            num_layers=model.shape.base.num_hidden_layers,
            num_rows=len(self.train.rows),
            steps_per_epoch=self.steps_per_epoch,
            tokens_per_parameter=None if tokens is None else tokens / num_parameters(model.base),
            pooling=None if self.task.is_per_token else model.shape.classifier.pooling,
        )

    def checksums(self) -> dict[str, str]:
        """What identifies the labelled sets, the tokenizer and the base."""
        return self.splits.checksums() | self.start.checksums()

    def work(self) -> None:
        """Train to the end, score the test set once, write the results."""
        training = self.recipe.training
        per_epoch, total = self.steps_per_epoch, self.total_steps
        self.processes.from_first(self._begin)
        self._say_what_is_trained(total)
        report_trainable(self.start.model, self.recipe.adaptation, num_epochs=total / per_epoch)
        plan = Plan(
            bundle=self.bundle,
            objective=self.task.objective(training, self.train, self.splits.labels),
            source=ExampleBatches(self.train.rows, training.batch_size, training.seed, self.task.is_per_token),
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
            rates=group_rates(self.start.model, self.recipe.adaptation, steps_per_epoch=per_epoch),
            observer=self.observer,
        )
        progress = run_steps(plan, self.run)
        # All processes wait for rank 0 to write: under torchrun the first process that ends stops the others.
        self.processes.from_first(lambda: self._finish(self.bundle, progress))

    def _begin(self) -> None:
        self.run.begin(self.recipe, self.machine.environment(self.recipe.training.seed), self.checksums())
        self.run.write("ledger.json", self.start.ledger.as_json())

    def _finish(self, bundle: Bundle, progress: Progress) -> None:
        if progress.best_step is not None:
            load_weights_in_place(bundle.model, best_folder(self.run.path / "checkpoints", progress))
        if len(self.validation):
            bundle = self.task.choose_thresholds(self._outputs(bundle, self.validation), self.validation, bundle)
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
                if self.with_baselines:
                    labelled = [*self.splits.train, *self.splits.validation]
                    result["baselines"] = task_baselines(self.task.name, labelled, self.splits.test)
            elif self.latest:
                self.task.warn_of_problems(self.latest, role="validation" if len(self.validation) else "train")
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
            bundle = self.task.choose_thresholds(outputs, examples, bundle)
        self.latest = self.task.evaluate(outputs, examples, bundle)
        names = (*self.task.logged_metrics, "loss") if prefix == "eval" else self.task.logged_metrics
        wanted = self.recipe.training.metric_for_best_model
        if prefix == "eval" and wanted and wanted not in names:
            names = (wanted, *names)
        return {f"{prefix}_{name}": self.latest[name] for name in names}

    def _score(self, metrics: dict[str, Any]) -> list[float]:
        """Higher is better."""
        assert self.recipe.training.metric_for_best_model is not None
        return self.task.selection_score(metrics, self.recipe.training.metric_for_best_model)

    def _test(self, bundle: Bundle) -> dict[str, Any]:
        test = self._encoded(self.splits.test)
        outputs = self._outputs(bundle, test)
        metrics = self.task.evaluate(outputs, test, bundle, is_final=True)
        self.task.warn_of_problems(metrics, role="test")
        self._say_how_it_was_read("test", test)
        if self.task.keeps_predictions:
            answers = self.task.predictions(outputs, test, bundle)
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
        if self.task.is_per_token and self.start.model.shape.direction == "causal":
            log.info("This base reads from left to right, so each word is judged without what follows it.")
        log_findings(findings_of({"train": splits.train, "validation": splits.validation, "test": splits.test}), log)
        log.info("Ledger: %s.", self.start.ledger.sentence())
        log.info(
            "%s%d train, %d validation, %d test; %.1f %% of the training tokens cut off at %d a %s.",
            f"{len(splits.labels)} labels, " if self.task.lists_labels else "",
            len(splits.train), len(splits.validation), len(splits.test), 100 * cut, self.max_length, self.task.noun,
        )  # fmt: skip
        self._say_how_it_was_read("train", self.train)
        self._say_how_it_was_read("validation", self.validation)
        log.info(
            "Fine-tuning for %s steps of %d texts on %s, learning rate %g.",
            f"{total_steps:,}", self.recipe.training.batch_size, self.machine.describe(),
            self.recipe.training.learning_rate,
        )  # fmt: skip
