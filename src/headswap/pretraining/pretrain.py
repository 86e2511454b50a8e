"""Pre-training: train a new base on a corpus, or adapt an existing base to a new corpus.

`pretrain` and `adapt` check the recipe and pass a `_Pretraining` to the runner. Corpus, objective and model come from
starting_point.py, training and held-out rows from corpus.py, the number of steps from time_budget.py.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from headswap.batches.sentence_pairs import PairRows
from headswap.bundle.bundle import TOKENS_TRAINED, Bundle
from headswap.core.errors import SettingError, counted
from headswap.core.local_paths import shared_name
from headswap.core.random_streams import Draws
from headswap.core.settings import Settings, load_recipe
from headswap.data.checks import log_issues
from headswap.data.content_hash import spooled
from headswap.defaults.pretraining import PretrainingFacts, resolve_pretraining
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.generator import Generator
from headswap.inference.language_model import held_out_metrics, scored_bytes
from headswap.model.parameter_count import num_parameters
from headswap.pretraining.config import AdaptRecipe, AdaptTraining, PretrainRecipe
from headswap.pretraining.corpus import CorpusParts, unigram_entropy
from headswap.pretraining.show_inputs import shown_inputs
from headswap.pretraining.starting_point import StartingPoint, existing_base, new_base, with_dropout
from headswap.pretraining.time_budget import num_evaluations, num_steps
from headswap.pretraining.warnings import PlateauWarning, corpus_issues
from headswap.tokens.cache import cached_store
from headswap.tokens.store import TokenStore
from headswap.training.checkpoint import Progress, best_folder, load_weights_in_place
from headswap.training.compile import compile_layers, pays_off
from headswap.training.run_folder import RunFolder
from headswap.training.runner import Context, HowToRun, TrainingSpec, run_steps, run_training

log = logging.getLogger("headswap")
SAMPLE_TOKENS = 40
AnyRecipe = PretrainRecipe | AdaptRecipe
MakeStart = Callable[[Any, Sequence[str]], StartingPoint]


def pretrain(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    **how: Unpack[HowToRun],
) -> RunFolder:
    """Pre-train a base with the settings of a recipe and of the given sections; return its run."""
    recipe = load_recipe(PretrainRecipe, Path(config) if config else None, sections)
    recipe.model.shape(
        vocab_size=1, max_length=recipe.training.max_length
    )  # an invalid shape is an error before any work
    return _run(recipe, [recipe.tokenizer.tokenizer], new_base, out, how)


def adapt(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    **how: Unpack[HowToRun],
) -> RunFolder:
    """Continue the pre-training of a base on a new corpus; return its run."""
    recipe = load_recipe(AdaptRecipe, Path(config) if config else None, sections)
    if recipe.model.base is None:
        raise SettingError("No base is given. Name the bundle or run folder of a pre-trained base.")
    reads = [recipe.model.base, recipe.model.reference]
    return _run(recipe, reads, existing_base, out, how)


def _run(
    recipe: AnyRecipe,
    also_reads: Sequence[str | None],
    start: MakeStart,
    out: str | Path,
    how: HowToRun,
) -> RunFolder:
    recipe.training.check()
    if not recipe.corpus.corpus:
        raise SettingError(
            "No corpus is given. Name files, folders, a token store, a data set, or - for standard input."
        )
    return run_training(
        recipe,
        lambda context: _Pretraining(recipe, start, context),
        out=out,
        reads=(*recipe.corpus.corpus, *also_reads),
        **how,
    )


class _Pretraining:
    def __init__(self, recipe: AnyRecipe, start: MakeStart, context: Context) -> None:
        """Read the inputs: the corpus, the base that is adapted, and text of its old domain."""
        self.recipe, self.run, self.machine = recipe, context.run, context.machine
        self.processes, self.observer = context.processes, context.observer
        sources = self.processes.from_first(lambda: spooled(recipe.corpus.corpus))  # only rank 0 has standard input
        self.start = self.processes.first_then_all(lambda: start(recipe, sources))
        self.tokenizer, self.store, self.objective = self.start.tokenizer, self.start.store, self.start.objective
        self.reference = self.processes.first_then_all(self._read_reference)

    def _read_reference(self) -> TokenStore | None:
        """Text of the old domain, if given; read here, before a run that is replaced is removed."""
        name = self.recipe.model.reference if isinstance(self.recipe, AdaptRecipe) else None
        if name is None:
            return None
        return cached_store([name], self.recipe.corpus, self.tokenizer, side=self.objective.sides)

    def _resolve(self) -> None:
        """Split the corpus, fill in the open settings and the number of steps, and make the bundle to train."""
        shape = self.start.model.shape.base
        self.machine.resolve_precision(shape.hidden_size)
        max_length = self.recipe.training.max_length or shape.max_position_embeddings
        self.parts = CorpusParts(self.store, self.objective, self.recipe.training, max_length=max_length)
        held_out = self.parts.held_out
        self.held_out_bytes = scored_bytes(held_out, self.tokenizer) if held_out else 0
        self.references = {
            "ln_vocabulary": math.log(self.tokenizer.vocab_size),
            "unigram_entropy": unigram_entropy(self.store, self.tokenizer),
        }
        self.plateau = PlateauWarning(self.references["unigram_entropy"], is_masked=not self.objective.is_likelihood)
        facts = PretrainingFacts(
            hidden_size=shape.hidden_size,
            max_length=max_length,
            is_new=self.start.source is None,
            is_causal=self.objective.is_likelihood,
            is_gpu=self.machine.device.type == "cuda",
        )
        recipe = resolve_pretraining(self.recipe, facts)
        training, self.total_steps = num_steps(
            recipe, self.start, self.parts, run=self.run, machine=self.machine, processes=self.processes
        )
        self.num_tokens = self.total_steps * self.parts.rows.num_tokens / self.parts.steps_per_epoch
        facts = replace(facts, epochs=self.total_steps / self.parts.steps_per_epoch)
        limits = {"max_steps": training.max_steps, "num_train_epochs": training.num_train_epochs}
        given = self.recipe.changed(training=self.recipe.training.changed(**limits))
        self.recipe = resolve_pretraining(given, facts)
        dropout = None
        if isinstance(self.recipe, PretrainRecipe):
            self.recipe = self.recipe.changed(masking=self.start.masking)
            dropout = self.recipe.model.dropout
        self.bundle = Bundle(
            with_dropout(self.start.model, dropout, seed=training.seed),
            self.tokenizer,
            objective=self.start.objective_name,
            masking=self.start.masking,
            card=self._card(),
        )

    def checksums(self) -> dict[str, str]:
        """Checksums of the corpus, the tokenizer and the base that is adapted."""
        return self.start.checksums()

    def work(self) -> None:
        """Train and write the results."""
        self._resolve()
        self.processes.from_first(self._begin)
        self._log_inputs()
        model = self.bundle.model
        if not self.processes.is_sharded and pays_off(
            model, self.machine, tokens=self.num_tokens, minutes=self.recipe.training.max_minutes
        ):
            compile_layers(model, self.machine.device)
        reference_before = self._reference_loss()
        progress = run_steps(self._spec(), self.run)
        # All processes wait for rank 0 to write: under torchrun the first process that ends stops the others.
        self.processes.from_first(lambda: self._finish(progress, reference_before))

    def _begin(self) -> None:
        self.run.begin(self.recipe, self.machine.environment(self.recipe.training.seed), self.checksums())

    def _spec(self) -> TrainingSpec:
        training, steps = self.recipe.training, self.total_steps
        return TrainingSpec(
            bundle=self.bundle,
            objective=self.objective,
            source=self.parts.batches(steps),
            settings=training,
            machine=self.machine,
            processes=self.processes,
            total_steps=steps,
            steps_per_epoch=self.parts.steps_per_epoch,
            evaluate=self._evaluate,
            evaluate_every=training.eval_steps or max(1, math.ceil(steps / num_evaluations(steps, self.parts))),
            save_every=training.save_steps,
            score=_lowest_loss if self._keeps_best() else None,
            losses=self.objective.losses,
            observer=self.observer,
        )

    def _keeps_best(self) -> bool:
        """Whether the weights with the lowest held-out loss are kept; a new base keeps the last ones."""
        settings = self.recipe.training
        return isinstance(settings, AdaptTraining) and settings.load_best_model_at_end and bool(self.parts.held_out)

    def _load_best(self, progress: Progress) -> Mapping[str, Any]:
        """Load the best weights, if they are kept; the evaluation of the weights that the bundle gets."""
        if progress.best_step is None:
            return progress.history[-1]
        load_weights_in_place(self.bundle.model, best_folder(self.run.path / "checkpoints", progress))
        best = next(line for line in reversed(progress.history) if line["step"] == progress.best_step)
        last = progress.history[-1]
        if best is not last:
            log.info(
                "The weights of epoch %.3g of %.3g are kept: their held-out loss is lowest (%.3f; at the end %.3f).",
                best["epoch"], last["epoch"], best["eval_loss"], last["eval_loss"],
            )  # fmt: skip
        if self.start.former_objective is None and best["eval_loss"] > (first := progress.history[0]["eval_loss"]):
            log.warning(
                "The adaptation raised the held-out loss from %.3f to %.3f: no evaluation was better than the base. "
                "Use a lower learning rate or fewer epochs.", first, best["eval_loss"],
            )  # fmt: skip
        return best

    def _finish(self, progress: Progress, reference_before: float | None) -> None:
        """Save the bundle and write `result.json`."""
        kept = self._load_best(progress)
        self.bundle.save(self.run.path / "bundle")
        before: dict[str, Any] = {}
        if isinstance(self.recipe, AdaptRecipe):
            before = {"before": _held_out(progress.history[0]), "best_epoch": kept["epoch"]}
            if self.start.former_objective is not None:
                before["former_objective"] = self.start.former_objective
            if reference_before is not None:
                before["reference"] = {"loss_before": reference_before, "loss_after": self._reference_loss()}
        self.run.write("result.json", {
            "verb": self.recipe.verb,
            "objective": self.start.objective_name,
            **dict.fromkeys(("loss", "perplexity", "bits_per_byte")),
            **_held_out(kept),
            **self._held_out_size(),
            **before,
            "references": self.references,
            "epochs": progress.step / self.parts.steps_per_epoch,
            **progress.skipped_steps(),
            **self.machine.cost(progress.step, progress.tokens, progress.seconds),
        })  # fmt: skip

    def _evaluate(self, step: int) -> dict[str, Any]:
        """Metrics on the held-out rows, which the processes share, and, for a base that generates text, a sample."""
        line: dict[str, Any] = {}
        if self.parts.held_out:
            metrics = held_out_metrics(
                self.bundle.model,
                self.objective,
                self.parts.held_out,
                num_bytes=self.held_out_bytes,
                autocast=self.machine.scoring(),
                spread=self.processes.map,
            )
            line = {f"eval_{name}": value for name, value in metrics.items()}
            self.plateau.check(metrics["loss"], step, self.total_steps, self.recipe.training.learning_rate)
        if self.objective.predicts_next:
            settings = SamplingSettings(max_new_tokens=SAMPLE_TOKENS, temperature=0.8, top_k=50, seed=0)
            line["sample"] = self.processes.from_first(lambda: Generator(self.bundle).continue_text("", settings).text)
        return line

    def _reference_loss(self) -> float | None:
        """The loss on text of the old domain, if given."""
        store = self.reference
        if store is None:
            return None
        model = self.bundle.model.to(self.machine.device)
        rows = self.parts.reference_rows(store)
        num_bytes = scored_bytes(rows, self.tokenizer)
        autocast = self.machine.scoring()
        metrics = held_out_metrics(model, self.objective, rows, num_bytes=num_bytes, autocast=autocast)
        if not metrics:
            log.warning("There is no loss on the reference text: none of its %d tokens is masked.", rows.num_tokens)
        return metrics.get("loss")

    def _held_out_size(self) -> dict[str, int]:
        """Size of the held-out text."""
        rows = self.parts.held_out
        return {} if not rows else {"held_out_documents": len(rows.documents), "held_out_tokens": rows.num_tokens}

    def _card(self) -> dict[str, Any]:
        training, before = self.recipe.training, self.start.tokens_trained
        return {
            "objective": self.start.objective_name,
            "preset": self.start.preset,
            **self._origin(),
            "training tokens in the corpus": self.parts.rows.num_tokens,
            **({TOKENS_TRAINED: before + round(self.num_tokens)} if before is not None else {}),
            "steps": self.total_steps,
            "batch size": training.batch_size,
            "learning rate": training.learning_rate,
            "seed": training.seed,
        }

    def _origin(self) -> dict[str, str]:
        """The base that is adapted, by its name and the checksum of its weights."""
        if self.start.source is None:
            return {}
        return {
            "adapted from": shared_name(self.start.source),
            "checksum of the base": self.start.checksums()["base"],
        }

    def _log_inputs(self) -> None:
        """Log sizes, reference losses, an example row, and issues about the corpus."""
        training, shape, rows = self.recipe.training, self.bundle.model.shape.base, self.parts.rows
        held_out = f", {len(self.parts.held_out.documents):,} held out" if self.parts.held_out else ""
        cut = f", {rows.num_truncated:,} tokens cut off" if rows.num_truncated else ""
        log.info(
            "Corpus: %s%s; %s tokens (with special tokens) in %s sequences of at most %d%s; vocabulary of %s tokens.",
            counted(len(rows.documents), "training document"), held_out, f"{rows.num_tokens:,}", f"{len(rows):,}",
            self.parts.max_length, cut, f"{shape.vocab_size:,}",
        )  # fmt: skip
        log.info(
            "Pre-training %s of width %d (%s) for %s, batch size %d, on %s. "
            "For comparison: a uniform distribution has a loss of %.3f, token frequencies (unigram entropy) of %.3f.",
            counted(shape.num_hidden_layers, "layer"), shape.hidden_size, self.start.objective_name,
            counted(self.total_steps, "step"), training.batch_size, self.machine.describe(), *self.references.values(),
        )  # fmt: skip
        if isinstance(rows, PairRows) and rows.num_left_out:
            log.info("%s tokens are not used: a chunk of a single sentence forms no pair.", f"{rows.num_left_out:,}")
        draws = Draws(training.seed, "mask", 0, progress=0.0)
        for line in shown_inputs(self.objective.make_batch(rows.pieces_of([0], draws), draws), self.tokenizer):
            log.info("Example sequence with its targets: %s", line)
        if self.processes.is_first:
            size = num_parameters(self.bundle.model)
            log_issues(corpus_issues(self.store, self.tokenizer, num_parameters=size), log)


def _lowest_loss(metrics: dict[str, Any]) -> list[float]:
    """The score of an evaluation: higher is better."""
    return [-metrics["eval_loss"]]


def _held_out(line: Mapping[str, Any]) -> dict[str, float]:
    """The held-out metrics of one evaluation."""
    return {name.removeprefix("eval_"): value for name, value in line.items() if name.startswith("eval_")}
