"""Fine-tuning: train a base with a new head on labelled data.

`finetune` checks the recipe and passes a `_Finetuning` to the runner. It evaluates before the first step and after
every epoch, selects the epoch on the validation set, and scores the test set once. Without a validation set nothing is
selected, and metrics on the training set are computed less often. Labels, metrics and the form of predictions belong to
the task (tasks/).
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from headswap.baselines.scores import task_baselines
from headswap.batches.labelled_rows import EncodedSet, Row
from headswap.batches.order import steps_per_epoch
from headswap.bundle.bundle import Bundle
from headswap.bundle.card_data import with_figures
from headswap.bundle.task_state import TaskState
from headswap.core.errors import SettingError, counted
from headswap.core.local_paths import shared_name
from headswap.core.settings import Settings, load_recipe
from headswap.data.records import Example
from headswap.defaults.finetuning import (
    EVALUATIONS_ON_TRAIN,
    FinetuningFacts,
    batch_size_of,
    resolve_finetuning,
    with_scratch_settings,
)
from headswap.finetuning.calibration import calibration_sentence, check_can_calibrate
from headswap.finetuning.class_means import set_class_means
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.consistency import CollapseCheck, read_unlabelled, texts_checksum
from headswap.finetuning.distillation import distilled_rows, teachers_checksum
from headswap.finetuning.head_inputs import reads_text_vector
from headswap.finetuning.layer_rates import count, freeze, group_rates, report_trainable
from headswap.finetuning.learning import make_learning
from headswap.finetuning.linear_head import has_linear_model, set_linear_head
from headswap.finetuning.messages import log_best_epoch, log_encoding, log_inputs
from headswap.finetuning.reload_check import FreshProcess, Reader, SameProcess, check_reload
from headswap.finetuning.sampled_tokens import sampled_tokens
from headswap.finetuning.splits import read_splits
from headswap.finetuning.starting_point import StartingPoint
from headswap.finetuning.task_settings import check_dropout, for_task
from headswap.inference.outputs import outputs_of
from headswap.model.parameter_count import num_parameters
from headswap.registry import PREDICTIONS
from headswap.training.checkpoint import Progress, best_folder, load_weights_in_place
from headswap.training.run_folder import RunFolder
from headswap.training.runner import Context, HowToRun, TrainingSpec, run_steps, run_training

log = logging.getLogger("headswap")


def finetune(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    with_baselines: bool = True,
    reloads_in_fresh_process: bool = True,
    scores_test: bool = True,
    **how: Unpack[HowToRun],
) -> RunFolder:
    """Fine-tune with the settings of a recipe and of the given sections; return the run.

    `with_baselines` is False in a study, which fits its own baselines, and `reloads_in_fresh_process` is True there for
    one run per arm. `scores_test` is False for a trial that may not be chosen.
    """
    recipe = load_recipe(FinetuneRecipe, Path(config) if config else None, sections)
    if recipe.data.train is None:
        raise SettingError("No training set is given. Pass --train FILE.")
    if recipe.model.base is None:
        raise SettingError("No base is given. Pass --base RUN (a bundle or a run folder), or --base scratch.")
    if recipe.model.base == "scratch":
        given = recipe.model_dump(exclude_unset=True, exclude={"verb"})
        recipe = load_recipe(FinetuneRecipe, None, with_scratch_settings(given))
    recipe.adaptation.check(is_scratch=recipe.model.base == "scratch")
    data = recipe.data
    reader: Callable[[], Reader] = FreshProcess if reloads_in_fresh_process else SameProcess
    return run_training(
        recipe,
        lambda context: _Finetuning(
            recipe, context, with_baselines=with_baselines, reader=reader, scores_test=scores_test
        ),
        out=out,
        reads=(
            recipe.model.base,
            recipe.tokenizer.tokenizer,
            data.train,
            data.validation,
            data.test,
            *recipe.consistency.unlabelled,
            *recipe.consistency.teachers,
        ),
        **how,
    )


class _Finetuning:
    def __init__(
        self,
        recipe: FinetuneRecipe,
        context: Context,
        *,
        with_baselines: bool,
        reader: Callable[[], Reader],
        scores_test: bool,
    ) -> None:
        """Read the inputs: the labelled sets and the base."""
        self.run, self.machine = context.run, context.machine
        self.processes, self.observer = context.processes, context.observer
        self.with_baselines, self.reader, self.scores_test = with_baselines, reader, scores_test
        self.splits = read_splits(recipe)
        self.task = self.splits.task
        self.recipe = for_task(recipe, self.task)
        check_can_calibrate(self.recipe, self.splits)
        self.calibration: dict[str, Any] = {}
        self.unlabelled: list[Example] = []
        self.collapse_check: CollapseCheck | None = None
        if sources := recipe.consistency.unlabelled:
            scored = [*self.splits.validation, *self.splits.test]
            self.unlabelled = read_unlabelled(
                sources, text_column=recipe.data.text_column, seed=recipe.training.seed, scored=scored
            )
        self.start = StartingPoint.of(self.recipe, self.splits)
        self.latest: dict[str, Any] = {}

    def _resolve(self) -> None:
        """Make the bundle to train, encode the labelled sets, fill in the open settings and the number of steps."""
        recipe, start, splits = self.recipe, self.start, self.splits
        if start.is_turned:
            recipe = recipe.changed(model=recipe.model.changed(direction=start.model.shape.direction))
        base = start.model.shape.base
        self.machine.resolve_precision(base.hidden_size)
        self.max_length = recipe.training.max_length or base.max_position_embeddings
        training = recipe.training.changed(max_length=self.max_length)
        check_dropout(training, start.model.shape)
        card = self._card(training.seed)
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
        self.rows = self._distilled() if recipe.consistency.teachers else self.train.rows
        if training.early_stopping_patience is not None and not splits.validation:
            log.warning("early_stopping_patience has no effect, because no validation set is held out.")
        num_texts = len(self.train) + (len(self.unlabelled) if recipe.consistency.teachers else 0)
        training = training.changed(batch_size=batch_size_of(training, num_texts))
        self.steps_per_epoch = steps_per_epoch(len(self.rows), training.batch_size)
        self.recipe, self.total_steps = resolve_finetuning(recipe.changed(training=training), self._facts())
        self._set_first_head()
        freeze(start.model, self.recipe.adaptation)

    def _set_first_head(self) -> None:
        """The first weights of the new head, if they are computed from the training texts."""
        wanted, model = self.recipe.adaptation.head_init, self.start.model
        if wanted == "random":
            return
        model.to(self.machine.device)
        if wanted == "class-means":
            set_class_means(model, self.train.rows, autocast=self.machine.scoring())
        else:
            metric = self.task.metric(self.recipe.training)
            set_linear_head(self.bundle, self.task, self.train, metric, self.machine.scoring())
        self.start = replace(self.start, ledger=self.start.ledger.with_new_weights(model))

    def _card(self, seed: int) -> dict[str, Any]:
        """How the model is made; the base by its name and the checksum of its weights."""
        checksum = self.start.checksums().get("base")
        return {
            "base": shared_name(str(self.recipe.model.base)),
            **({"checksum of the base": checksum} if checksum else {}),
            "training examples": len(self.splits.train),
            "seed": seed,
        }

    def _encoded(self, examples: Sequence[Any]) -> EncodedSet:
        return self.task.encode(examples, self.bundle)

    def _distilled(self) -> Sequence[Row]:
        """The labelled rows, and the unlabelled ones with the predictions of the teachers."""
        return distilled_rows(
            self.recipe.consistency.teachers, self.task, self.bundle, self.train, self.unlabelled,
            device=self.machine.device, autocast=self.machine.scoring(),
        )  # fmt: skip

    def _facts(self) -> FinetuningFacts:
        model, tokens = self.start.model, self.start.tokens_trained
        has_class_layer = reads_text_vector(self.task, self.recipe.head.head_hidden)
        return FinetuningFacts(
            hidden_size=model.shape.base.hidden_size,
            num_layers=model.shape.base.num_hidden_layers,
            num_rows=len(self.rows),
            steps_per_epoch=self.steps_per_epoch,
            tokens_per_parameter=None if tokens is None else tokens / num_parameters(model.base),
            pooling=None if self.task.is_per_token else model.shape.classifier.pooling,
            num_classes=len(self.splits.labels) if has_class_layer else None,
            head_similarity=model.shape.classifier.head_similarity,
            head_norm=model.shape.classifier.head_norm,
            pair_encoding=self.start.pair_encoding,
            compares_vectors=self.start.pair_encoding == "separate"
            and has_linear_model(self.task)
            and self.recipe.head.head_hidden == "none",
        )

    def checksums(self) -> dict[str, str]:
        """Checksums of the labelled sets, the tokenizer and the base, and of unlabelled texts."""
        unlabelled = {"unlabelled texts": texts_checksum(self.unlabelled)} if self.unlabelled else {}
        if teachers := self.recipe.consistency.teachers:
            unlabelled["teachers"] = teachers_checksum(teachers)
        return self.splits.checksums() | self.start.checksums() | unlabelled

    def work(self) -> None:
        """Train, score the test set once, and write the results."""
        self._resolve()
        self.processes.from_first(self._begin)
        log_inputs(self.recipe, self.splits, self.start)
        log_encoding("training", self.train, self.max_length, self.task.noun)
        log_encoding("validation", self.validation, self.max_length, self.task.noun)
        self._log_training()
        progress = run_steps(self._spec(), self.run)
        # All processes wait for rank 0 to write: under torchrun the first process that ends stops the others.
        self.processes.from_first(lambda: self._finish(progress))

    def _begin(self) -> None:
        self.run.begin(self.recipe, self.machine.environment(self.recipe.training.seed), self.checksums())
        self.run.write("ledger.json", self.start.ledger.as_json())

    def _log_training(self) -> None:
        training = self.recipe.training
        log.info(
            "Fine-tuning for %s, batch size %d, learning rate %g, on %s.",
            counted(self.total_steps, "step"), training.batch_size, training.learning_rate, self.machine.describe(),
        )  # fmt: skip
        epochs = self.total_steps / self.steps_per_epoch
        report_trainable(self.start.model, self.recipe.adaptation, num_epochs=epochs)

    def _spec(self) -> TrainingSpec:
        training, per_epoch = self.recipe.training, self.steps_per_epoch
        learning = make_learning(
            self.recipe, self.task, self.bundle, self.train, self.rows, self.unlabelled,
            total_steps=self.total_steps, replacements=sampled_tokens(self.recipe, self.machine),
        )  # fmt: skip
        self.collapse_check = learning.collapse_check
        return TrainingSpec(
            bundle=self.bundle,
            objective=learning.objective,
            source=learning.source,
            settings=training,
            machine=self.machine,
            processes=self.processes,
            total_steps=self.total_steps,
            steps_per_epoch=per_epoch,
            evaluate=self._evaluate,
            evaluate_every=per_epoch * self._epochs_between_evaluations(),
            save_every=training.save_steps,
            score=self._score if len(self.validation) else None,
            patience=training.early_stopping_patience,
            losses=learning.losses,
            rates=group_rates(self.start.model, self.recipe.adaptation, steps_per_epoch=per_epoch),
            after_evaluation=None if self.collapse_check is None else self.collapse_check.after_evaluation,
            observer=self.observer,
        )

    def _epochs_between_evaluations(self) -> int:
        """1 if evaluations decide something. Metrics on the training set are for information only, so they are few."""
        if len(self.validation) or self.collapse_check is not None:
            return 1
        return math.ceil(self.total_steps / self.steps_per_epoch / EVALUATIONS_ON_TRAIN)

    def _finish(self, progress: Progress) -> None:
        """Load the best weights, score the test set, save the bundle and write `result.json`."""
        bundle = self.bundle
        if progress.best_step is not None:
            load_weights_in_place(bundle.model, best_folder(self.run.path / "checkpoints", progress))
        if len(self.validation):
            outputs = self._outputs(bundle, self.validation)
            bundle = self.task.choose_thresholds(
                outputs, self.validation, bundle, metric=self.task.metric(self.recipe.training)
            )
            if self.recipe.training.calibrate:
                bundle, self.calibration["validation"] = self.task.calibrated(outputs, self.validation, bundle)
        best_step = progress.best_step or progress.step
        best_epoch = next(line["epoch"] for line in reversed(progress.history) if line["step"] == best_step)
        if progress.best_step is not None:
            log_best_epoch(self.recipe.training.metric_for_best_model, best_epoch, progress.history[-1]["epoch"])
        result = self._result(progress, best_epoch)
        with self.reader() as reader:
            if self.splits.test and self.scores_test:
                result["test"] = self._test(bundle)
                result["truncated_shares"]["test"] = result["test"]["truncated_share"]
                name = shared_name(str(self.recipe.data.test))
                bundle = with_figures(bundle, result["test"], data=name, examples=len(self.splits.test))
                if self.with_baselines:
                    labelled = [*self.splits.train, *self.splits.validation]
                    result |= self._baselines(labelled)
            elif self.latest:
                self.task.warn_of_problems(self.latest, role="validation" if len(self.validation) else "train")
            if self.calibration:
                result["calibration"] = {"temperature": bundle.task.temperature, **self.calibration}
                log.info(calibration_sentence(result["calibration"]))
            bundle.save(self.run.path / "bundle")
            checked = self.validation if len(self.validation) else self.train
            result["reload_check"] = check_reload(reader, bundle, self.run.path / "bundle", checked.rows)
        result |= progress.skipped_steps()
        self.run.write("result.json", result | self.machine.cost(progress.step, progress.tokens, progress.seconds))

    def _baselines(self, labelled: Sequence[Any]) -> dict[str, Any]:
        """The scores of the baselines; the reason for each that is too large to be fitted is logged and kept."""
        metric = self.task.metric(self.recipe.training)
        found = task_baselines(self.task.name, labelled, self.splits.test, metric=metric, labels=self.splits.labels)
        skipped = {name: scores["not_fitted"] for name, scores in found.items() if "not_fitted" in scores}
        for reason in skipped.values():
            log.warning("%s", reason)
        fitted = {name: scores for name, scores in found.items() if name not in skipped}
        return {"baselines": fitted} | ({"baselines_not_fitted": skipped} if skipped else {})

    def _result(self, progress: Progress, best_epoch: float) -> dict[str, Any]:
        """The part of `result.json` that does not depend on the test set."""
        return {
            "verb": "finetune",
            "task": self.task.name,
            "metric": self.task.metric(self.recipe.training),
            "base": shared_name(str(self.recipe.model.base)),
            "num_train": len(self.train),
            "num_validation": len(self.validation),
            "best_epoch": best_epoch,
            "validation_score": progress.best_score,
            "truncated_share": self.train.truncated_share,
            "truncated_shares": {
                "train": self.train.truncated_share,
                "validation": self.validation.truncated_share if len(self.validation) else None,
                "test": None,
            },
            "parameters": dict(zip(("total", "trainable"), count(self.bundle.model), strict=True)),
            "stopped_early": progress.has_stopped_early,
            **(self.collapse_check.result() if self.collapse_check else {}),
            "history": progress.history,
        }

    def _evaluate(self, step: int) -> dict[str, Any]:
        """Metrics on the validation set; without one, on the training set."""
        prefix, examples = ("eval", self.validation) if len(self.validation) else ("train", self.train)
        bundle, scoring = self.bundle, self.machine.scoring()
        outputs = outputs_of(bundle.model, examples.rows, autocast=scoring, spread=self.processes.map)
        if prefix == "eval":
            bundle = self.task.choose_thresholds(
                outputs, examples, bundle, metric=self.task.metric(self.recipe.training)
            )
        self.latest = self.task.evaluate(outputs, examples, bundle)
        collapse: dict[str, float] = {}
        if (check := self.collapse_check) is not None:
            collapse = self.processes.from_first(lambda: check.measure(self.bundle.model, self.machine.scoring()))
        names = (*self.task.logged_metrics, "loss") if prefix == "eval" else self.task.logged_metrics
        wanted = self.recipe.training.metric_for_best_model
        if prefix == "eval" and wanted and wanted not in names:
            names = (wanted, *names)
        return {f"{prefix}_{name}": self.latest[name] for name in names} | collapse

    def _outputs(self, bundle: Bundle, encoded: EncodedSet) -> list[Any]:
        return outputs_of(bundle.model, encoded.rows, autocast=self.machine.scoring())

    def _score(self, metrics: dict[str, Any]) -> list[float]:
        """The validation score by which the best epoch is selected; higher is better."""
        assert self.recipe.training.metric_for_best_model is not None
        return self.task.selection_score(metrics, self.recipe.training.metric_for_best_model)

    def _test(self, bundle: Bundle) -> dict[str, Any]:
        """Metrics on the test set; the predictions of tasks that can be compared are saved."""
        test = self._encoded(self.splits.test)
        outputs = self._outputs(bundle, test)
        metrics = self.task.evaluate(outputs, test, bundle, is_final=True)
        self.task.warn_of_problems(metrics, role="test")
        log_encoding("test", test, self.max_length, self.task.noun)
        if self.calibration:
            self.calibration["test"] = self.task.effect_of_temperature(outputs, test, bundle)
        if self.task.prediction_kind is not None:
            answers = self.task.predictions(outputs, test, bundle)
            kind = PREDICTIONS.load(self.task.prediction_kind)
            kind.of_model(answers, self.splits.test, bundle.labels).save(self.run.path)
        return metrics | {"truncated_share": test.truncated_share}
