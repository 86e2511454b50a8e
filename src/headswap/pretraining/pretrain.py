"""Pre-training: a corpus in, a run folder with a base in it out; and going on with a base on new text.

Puts the parts together, drives the loop, scores held-out text on the way and writes what came out. Where text,
objective and model come from is left to origin.py, what is held out to corpus.py, for how long is trained to settle.py.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headswap.batches.sentence_pairs import PairRows
from headswap.bundle.bundle import TOKENS_TRAINED, Bundle
from headswap.core.errors import SettingError, counted
from headswap.core.random_streams import Draws
from headswap.core.settings import Settings, load_recipe
from headswap.data.checks import log_findings
from headswap.data.content_hash import spooled
from headswap.defaults import PretrainingFacts, resolve_pretraining
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.generator import Generator
from headswap.inference.language_model import held_out_metrics
from headswap.model.parameter_count import num_parameters
from headswap.model.text_model import TextModel
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.pretraining.corpus import CorpusParts, split_documents, unigram_entropy
from headswap.pretraining.show_inputs import shown_inputs
from headswap.pretraining.starting_point import StartingPoint, existing_base, new_base, with_dropout
from headswap.pretraining.time_budget import num_evaluations, num_steps
from headswap.pretraining.warnings import PlateauAlarm, corpus_findings
from headswap.tokens.cache import cached_store
from headswap.tokens.store import TokenStore
from headswap.training.checkpoint import Progress
from headswap.training.compile import compile_layers, pays_off
from headswap.training.observer import Observer
from headswap.training.run_folder import RunFolder
from headswap.training.runner import Context, Plan, run_steps, run_training

log = logging.getLogger("headswap")
SAMPLE_TOKENS = 40
AnyRecipe = PretrainRecipe | AdaptRecipe


def pretrain(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
) -> RunFolder:
    """Pre-train a base as a recipe and the given sections say; return its run."""
    recipe = load_recipe(PretrainRecipe, Path(config) if config else None, sections)
    recipe.model.shape(vocab_size=1, max_length=recipe.training.max_length)  # a wrong one is told before all else
    return _run(recipe, [recipe.tokenizer.tokenizer], new_base, out, overwrite, resume, observer)


def adapt(
    *,
    out: str | Path,
    config: str | Path | None = None,
    sections: Mapping[str, Settings | Mapping | None] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    observer: Observer | None = None,
) -> RunFolder:
    """Go on pre-training a base on a new corpus, as a recipe and the given sections say; return its run."""
    recipe = load_recipe(AdaptRecipe, Path(config) if config else None, sections)
    if recipe.model.base is None:
        raise SettingError("No base is given. Name the bundle or run folder of a pre-trained base.")
    reads = [recipe.model.base, recipe.model.reference]
    return _run(recipe, reads, existing_base, out, overwrite, resume, observer)


def _run(
    recipe: AnyRecipe,
    also_reads: Sequence[str | None],
    start: Callable[[Any, Sequence[str]], StartingPoint],
    out: str | Path,
    overwrite: bool,
    resume: bool,
    observer: Observer | None,
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
        overwrite=overwrite,
        resume=resume,
        observer=observer,
    )


class _Pretraining:
    def __init__(
        self, recipe: AnyRecipe, start: Callable[[Any, Sequence[str]], StartingPoint], context: Context
    ) -> None:
        self.recipe, self.run, self.machine = recipe, context.run, context.machine
        self.processes, self.observer = context.processes, context.observer
        sources = self.processes.from_first(lambda: spooled(recipe.corpus.corpus))  # only rank 0 has standard input
        self.start = self.processes.first_then_all(lambda: start(recipe, sources))
        self.tokenizer, self.store, self.objective = self.start.tokenizer, self.start.store, self.start.objective
        self.shape = self.start.model.shape
        self.reference = self.processes.first_then_all(self._read_reference)
        self.machine.settle_precision(self.shape.base.hidden_size)
        max_length = recipe.training.max_length or self.shape.base.max_position_embeddings
        self.parts = CorpusParts(self.store, self.objective, recipe.training, max_length=max_length)
        self.references = {
            "ln_vocabulary": math.log(self.tokenizer.vocab_size),
            "unigram_entropy": unigram_entropy(self.store, self.tokenizer),
        }
        self.total_steps = 0
        self.plateau = PlateauAlarm(self.references["unigram_entropy"], is_masked=not self.objective.is_likelihood)

    def checksums(self) -> dict[str, str]:
        """What identifies the corpus, the tokenizer and the base that is adapted."""
        return self.start.checksums()

    def work(self) -> None:
        """Train to the end and write the results."""
        model = self._resolve()
        training, parts, steps = self.recipe.training, self.parts, self.total_steps
        self.processes.from_first(
            lambda: self.run.begin(self.recipe, self.machine.environment(training.seed), self.checksums())
        )
        self._report_inputs(steps)
        if self.processes.is_first:
            log_findings(corpus_findings(self.store, self.tokenizer, num_parameters=num_parameters(model)), log)
        tokens = steps * parts.rows.num_tokens / parts.steps_per_epoch
        if pays_off(model, self.machine, tokens=tokens, minutes=training.max_minutes):
            compile_layers(model, self.machine.device)
        name, masking, card = self.start.objective_name, self.start.masking, self._card(steps, round(tokens))
        bundle = Bundle(model, self.tokenizer, objective=name, masking=masking, card=card)
        old = self._reference_loss(bundle)
        every = training.eval_steps or max(1, math.ceil(steps / num_evaluations(steps, parts)))
        plan = Plan(
            bundle=bundle,
            objective=self.objective,
            source=parts.batches(),
            settings=training,
            machine=self.machine,
            processes=self.processes,
            total_steps=steps,
            steps_per_epoch=parts.steps_per_epoch,
            evaluate=lambda step: self._evaluate(bundle, step),
            evaluate_every=every,
            save_every=training.save_steps,
            losses=self.objective.losses,
            observer=self.observer,
        )
        progress = run_steps(plan, self.run)
        # All processes wait for rank 0 to write: under torchrun the first process that ends stops the others.
        self.processes.from_first(lambda: self._finish(bundle, progress, plan.steps_per_epoch, old))

    def _resolve(self) -> TextModel:
        """Fill in the recipe's open settings and the number of steps; return the model to train."""
        facts = PretrainingFacts(
            hidden_size=self.shape.base.hidden_size,
            max_length=self.parts.max_length,
            is_new=self.start.source is None,
            is_causal=self.objective.is_likelihood,
        )
        recipe = resolve_pretraining(self.recipe, facts)
        training, self.total_steps = num_steps(
            recipe, self.start, self.parts, run=self.run, machine=self.machine, processes=self.processes
        )
        facts = replace(facts, epochs=self.total_steps / self.parts.steps_per_epoch)
        self.recipe = resolve_pretraining(recipe.changed(training=training), facts)
        dropout = self.recipe.model.dropout if isinstance(self.recipe, PretrainRecipe) else None
        return with_dropout(self.start.model, dropout, seed=training.seed)

    def _finish(self, bundle: Bundle, progress: Progress, per_epoch: int, old: float | None) -> None:
        bundle.save(self.run.path / "bundle")
        before: dict[str, Any] = {}
        if isinstance(self.recipe, AdaptRecipe):
            before = {"before": _held_out(progress.history[0])}
            if old is not None:
                before["reference"] = {"loss_before": old, "loss_after": self._reference_loss(bundle)}
        self.run.write("result.json", {
            "verb": self.recipe.verb,
            "objective": self.start.objective_name,
            **dict.fromkeys(("loss", "perplexity", "bits_per_byte")),
            **_held_out(progress.history[-1]),
            **self._held_out_size(),
            **before,
            "references": self.references,
            "epochs": progress.step / per_epoch,
            **progress.noted(),
            **self.machine.cost(progress.step, progress.tokens, progress.seconds),
        })  # fmt: skip

    def _read_reference(self) -> TokenStore | None:
        """The text of the old domain, where some is given; read before the run that is replaced is removed."""
        name = self.recipe.model.reference if isinstance(self.recipe, AdaptRecipe) else None
        if name is None:
            return None
        return cached_store([name], self.recipe.corpus, self.tokenizer, side=self.objective.sides)

    def _reference_loss(self, bundle: Bundle) -> float | None:
        """The loss on text of the old domain, where some is given."""
        store = self.reference
        if store is None:
            return None
        model = bundle.model.to(self.machine.device)
        _, chosen = split_documents(store, 0.5)  # at most as many tokens as are held out
        rows = self.parts.rows_of(chosen if len(chosen) else np.arange(store.num_documents), store)
        num_bytes = int(store.byte_counts.sum())
        autocast = self.machine.scoring()
        return held_out_metrics(model, self.objective, rows, num_bytes=num_bytes, autocast=autocast)["loss"]

    def _evaluate(self, bundle: Bundle, step: int) -> dict[str, Any]:
        line: dict[str, Any] = {}
        if self.parts.held_out:
            metrics = held_out_metrics(
                bundle.model,
                self.objective,
                self.parts.held_out,
                num_bytes=self.parts.held_out_bytes,
                autocast=self.machine.scoring(),
            )
            line = {f"eval_{name}": value for name, value in metrics.items()}
            self.plateau.look(metrics["loss"], step, self.total_steps, self.recipe.training.learning_rate)
        if self.objective.direction == "causal":
            settings = SamplingSettings(max_new_tokens=SAMPLE_TOKENS, temperature=0.8, top_k=50, seed=0)
            line["sample"] = Generator(bundle).continue_text("", settings).text
        return line

    def _report_inputs(self, steps: int) -> None:
        training, shape, rows = self.recipe.training, self.shape.base, self.parts.rows
        cut = f", {rows.num_truncated:,} tokens cut off by the limit" if rows.num_truncated else ""
        beside = f" ({len(self.parts.held_out.documents):,} more are held out)" if self.parts.held_out else ""
        log.info(
            "To be read: %s%s, %s tokens with <sos> and the like, in %s rows of at most %d%s; vocabulary %s.",
            counted(len(rows.documents), "document"), beside, f"{rows.num_tokens:,}", f"{len(rows):,}",
            self.parts.max_length, cut, f"{shape.vocab_size:,}",
        )  # fmt: skip
        log.info(
            "Pre-training %d layers of %d (%s) for %s of %d rows on %s. ln V = %.3f, unigram entropy = %.3f.",
            shape.num_hidden_layers, shape.hidden_size, self.start.objective_name, counted(steps, "step"),
            training.batch_size, self.machine.describe(), *self.references.values(),
        )  # fmt: skip
        if isinstance(rows, PairRows) and rows.num_left_out:
            log.info("%s tokens stand in chunks of a single sentence and make no pair.", f"{rows.num_left_out:,}")
        draws = Draws(training.seed, "mask", 0)
        for line in shown_inputs(self.objective.make_batch(rows.pieces_of([0], draws), draws), self.tokenizer):
            log.info("As the model sees it: %s", line)

    def _held_out_size(self) -> dict[str, int]:
        """How much text the held-out figures rest on."""
        rows = self.parts.held_out
        return {} if not rows else {"held_out_documents": len(rows.documents), "held_out_tokens": rows.num_tokens}

    def _card(self, steps: int, tokens: int) -> dict[str, Any]:
        training, before = self.recipe.training, self.start.tokens_trained
        return {
            "objective": self.start.objective_name,
            "preset": self.start.preset,
            **({"went on from": self.start.source} if self.start.source else {}),
            "training tokens in the corpus": self.parts.rows.num_tokens,
            **({TOKENS_TRAINED: before + tokens} if before is not None else {}),
            "steps": steps,
            "batch size": training.batch_size,
            "learning rate": training.learning_rate,
            "seed": training.seed,
        }


def _held_out(line: Mapping[str, Any]) -> dict[str, float]:
    """The held-out figures of one evaluation."""
    return {name.removeprefix("eval_"): value for name, value in line.items() if name.startswith("eval_")}
