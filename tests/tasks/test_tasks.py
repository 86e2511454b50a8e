"""Tasks, piece by piece: rows, targets, thresholds, windows, and scores that no neighbour changes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError
from headswap.data.config import ColumnSettings, LabelledSettings
from headswap.data.records import Answer, Document, Example, SpanExample, TaggedExample
from headswap.finetuning.config import FinetuneTraining
from headswap.inference import outputs as evaluate
from headswap.inference.outputs import outputs_of
from headswap.metrics.multilabel import best_thresholds, multilabel_metrics
from headswap.metrics.regression import correlation, ranks, regression_metrics
from headswap.model.text_model import build_model
from headswap.tasks.registry import TASKS
from headswap.tasks.span import ContextRow, best_span, tokens_of
from headswap.tasks.tag import WordRow, first_pieces_of
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from task_data import INPUTS, ROWS, tagged
from tiny import sentences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
LABELS = {
    "classify": ("neg", "pos"),
    "multilabel": ("actor", "film", "scene", "story"),
    "regress": ("value",),
    "tag": ("B-LOC", "B-PER", "I-LOC", "I-PER", "O"),
    "span": ("start", "end"),
}


def make(tokenizer: Tokenizer, task: str, *, preset: str = "small", **state: Any) -> Bundle:
    shape = tiny_model_shape(preset, head=TASKS[task].head, vocab_size=tokenizer.vocab_size)
    model = build_model(shape.changed(num_labels=len(LABELS[task])), seed=3)
    return Bundle(model, tokenizer, LABELS[task], task=TaskState(task=task, **state))


def examples_of(task: str, count: int, **given: Any) -> list[Any]:
    rows = ROWS[task](count, **given)
    if task == "tag":
        return [TaggedExample(tuple(r["tokens"]), tuple(r["tags"]), "x", n) for n, r in enumerate(rows)]
    if task == "span":
        return [
            SpanExample(
                row["question"],
                row["context"],
                tuple(map(Answer, row["answers"]["text"], row["answers"]["answer_start"])),
                "x",
                n,
            )
            for n, row in enumerate(rows)
        ]
    parse = TASKS[task].parse(ColumnSettings())
    parsed = [parse(row["label"]) for row in rows]
    return [
        Example(row["text"], own.label, "x", n, None, own.labels, own.value)
        for n, (row, own) in enumerate(zip(rows, parsed, strict=True))
    ]


# Every task


@pytest.mark.parametrize("task", TASKS)
def test_neither_neighbours_nor_batches_change_a_tasks_scores_or_answers(
    tokenizer: Tokenizer, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, own = make(tokenizer, task, max_length=24), TASKS[task]
    own_long = "windows" if task != "regress" else "truncate"
    bundle = replace(bundle, task=bundle.task.changed(long=own_long))
    examples = examples_of(task, 12)
    encoded = own.encode(examples, bundle)
    together = outputs_of(bundle.model, encoded.rows)
    monkeypatch.setitem(evaluate.TOKENS_PER_BATCH, "cpu", 1)  # every row on its own
    alone = outputs_of(bundle.model, encoded.rows)
    for first, second in zip(together, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
    one = own.encode(examples[4:5], bundle)
    answer = own.answers(outputs_of(bundle.model, one.rows), one, bundle)[0].short
    same = own.answers(together, encoded, bundle)[4].short
    assert answer == (pytest.approx(same, rel=1e-4) if task == "regress" else same)
    assert own.measure(together, encoded, bundle)["loss"] == pytest.approx(own.measure(alone, encoded, bundle)["loss"])


@pytest.mark.parametrize("task", TASKS)
def test_a_tasks_measured_loss_is_its_objectives_over_all_targets(tokenizer: Tokenizer, task: str) -> None:
    from headswap.batches.labelled_rows import batch_of

    bundle, own = make(tokenizer, task), TASKS[task]
    encoded = own.encode(examples_of(task, 8), bundle)
    objective = own.objective(FinetuneTraining(), encoded, bundle.labels)
    batch = batch_of(encoded.rows, is_per_token=own.head != "classify")
    with torch.no_grad():
        loss = objective.loss_sum(bundle.model, batch).item() / batch.num_targets
    measured = own.measure(outputs_of(bundle.model, encoded.rows), encoded, bundle)
    assert measured["loss"] == pytest.approx(loss, rel=1e-5)
    assert measured["num_examples"] == 8
    assert set(own.metrics) <= set(measured)
    assert set(own.shown) <= set(measured)


def test_a_column_of_another_task_is_told_how_to_choose_that_task() -> None:
    with pytest.raises(SettingError, match=r"does not read it\. The task multilabel does: pass --task multilabel\.$"):
        TASKS["classify"].check_columns(LabelledSettings(label_separator=";"))
    with pytest.raises(SettingError, match=r"does not read it\.$"):
        TASKS["classify"].check_columns(ColumnSettings(label_separator=";"))  # of a bundle, which has its task
    with pytest.raises(SettingError, match=r"does not read it\.$"):
        TASKS["tag"].check_columns(LabelledSettings(text_column="x"))  # three tasks do


def test_several_labels_in_one_string_bring_the_separator_to_mind() -> None:
    task = TASKS["multilabel"]
    joined = Example("a text", "film;story", "test.csv", 2, labels=("film;story",))
    with pytest.raises(InputError, match=r"\n'film;story' seems to be several labels: pass --label-separator ';'\.$"):
        task.check([joined], LABELS["multilabel"], role="test")
    other = Example("a text", "film;plot", "test.csv", 2, labels=("film;plot",))
    with pytest.raises(InputError) as raised:
        task.check([other], LABELS["multilabel"], role="test")
    assert "separator" not in str(raised.value), "it is not made of known labels"


@pytest.mark.parametrize("task", TASKS)
def test_what_would_have_no_effect_on_a_task_is_refused(task: str) -> None:
    own = TASKS[task]
    assert own.resolve(FinetuneTraining()).metric_for_best_model == own.metrics[0]
    foreign = next(name for name in ("micro_f1", "mse", "f1") if name not in own.metrics)
    with pytest.raises(SettingError, match=f"metric_for_best_model is '{foreign}', but the task {task} has"):
        own.resolve(FinetuneTraining(metric_for_best_model=foreign))
    for setting in ({"class_weight": "balanced"}, {"label_smoothing_factor": 0.1}, {"max_answer_length": 5}):
        if next(iter(setting)) not in own.settings:
            with pytest.raises(SettingError, match=f"has no meaning for the task {task}"):
                own.resolve(FinetuneTraining.model_validate(setting))
    column = "text_column" if own.head != "classify" else "tokens_column"
    with pytest.raises(SettingError, match=f"{column} cannot be set: the task {task} does not read it"):
        own.check_columns(ColumnSettings.model_validate({column: "x"}))
    if own.head != "classify":
        with pytest.raises(SettingError, match="pooling cannot be set"):
            own.check_pooling("last")
        with pytest.raises(SettingError, match=r"long is 'truncate', but the task .* has 'windows'"):
            own.resolve(FinetuneTraining(long="truncate"))


@pytest.mark.parametrize("task", TASKS)
def test_inputs_that_are_wrong_are_told(tokenizer: Tokenizer, task: str) -> None:
    bundle, own = make(tokenizer, task), TASKS[task]
    assert len(own.inputs(INPUTS[task], bundle)) == len(INPUTS[task])
    wrong: list[Any] = {"tag": [["a", 3]], "span": ["a context alone"]}.get(task, [3])
    with pytest.raises(InputError):
        own.inputs(wrong, bundle)
    blank: list[Any] = [("q", " ")] if task == "span" else [" "]
    with pytest.raises(InputError, match="blank"):
        own.inputs(blank, bundle)


# Long texts and pairs


def test_windows_of_a_document_are_averaged_and_nothing_is_cut(tokenizer: Tokenizer) -> None:
    text = " ".join(text for text, _ in sentences(6))
    examples = [Example(text, "pos", "x", 1), Example("a film", "neg", "x", 2)]
    task = TASKS["classify"]
    cut = task.encode(examples, make(tokenizer, "classify", max_length=20))
    assert len(cut.rows) == 2
    assert cut.truncated_share == (cut.num_tokens - 20 - len(cut.rows[1].ids)) / cut.num_tokens > 0.5
    bundle = make(tokenizer, "classify", max_length=20, long="windows", doc_stride=5)
    encoded = task.encode(examples, bundle)
    assert encoded.truncated_share == 0
    assert [row.example for row in encoded.rows] == [0] * (len(encoded.rows) - 1) + [1]
    assert all(row.target_value.tolist() == [1] for row in encoded.rows[:-1]), "a window carries its document's label"
    outputs = outputs_of(bundle.model, encoded.rows)
    windows = torch.softmax(torch.tensor(np.stack(outputs[:-1])), dim=1).mean(dim=0)
    answers = task.answers(outputs, encoded, bundle)
    assert list(answers[0].scores.values()) == pytest.approx(windows.tolist(), abs=1e-6)
    assert list(answers[1].scores.values()) == pytest.approx(torch.softmax(torch.tensor(outputs[-1]), 0).tolist())


def test_pairs_are_parted_by_sep_and_have_segments_where_the_base_has_them(tokenizer: Tokenizer) -> None:
    examples = [Example("the film", "pos", "x", 1, "was fine")]
    ids = [tokenizer.sos_id, *tokenizer.encode("the film"), tokenizer.sep_id, *tokenizer.encode("was fine")]
    for preset, has_segments in (("small", False), ("bert-base", True)):
        bundle = make(tokenizer, "classify", preset=preset, reads_pairs=True)
        row = TASKS["classify"].encode(examples, bundle).rows[0]
        assert row.ids.tolist() == ids
        assert (row.segments is not None) == has_segments
        if has_segments:
            assert row.segments.sum() == len(tokenizer.encode("was fine"))
            (with_segments,) = outputs_of(bundle.model, [row])
            (without,) = outputs_of(bundle.model, [replace(row, segments=None)])
            assert np.abs(with_segments - without).max() > 1e-6, "the segments are read"


# Multi-label


def test_thresholds_are_the_best_of_each_label_and_half_where_a_label_never_occurs() -> None:
    scores = np.array([[0.9, 0.2, 0.4], [0.6, 0.3, 0.4], [0.3, 0.1, 0.4], [0.1, 0.05, 0.1]])
    truth = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    found = best_thresholds(scores, truth)
    assert found.tolist() == pytest.approx([0.2, 0.15, 0.5])
    assert ((scores >= found)[:, :2] == truth[:, :2]).all()
    separable = best_thresholds(np.array([[0.9], [0.2]]), np.array([[True], [False]]))
    assert separable.tolist() == [0.5], "0.5 where it is as good as any"


def test_thresholds_beat_half_on_their_own_set() -> None:
    stream = np.random.default_rng(0)
    scores, labels = stream.random((80, 5)), ["a", "b", "c", "d", "e"]
    truth = stream.random((80, 5)) < scores * 0.4
    tuned = multilabel_metrics(truth, scores >= best_thresholds(scores, truth), labels)
    plain = multilabel_metrics(truth, scores >= 0.5, labels)
    assert all(tuned["f1"][name] >= plain["f1"][name] for name in labels)


def test_multilabel_metrics_of_a_known_case() -> None:
    from sklearn.metrics import f1_score

    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    guess = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    found = multilabel_metrics(truth, guess, ["a", "b", "c"], is_final=True)
    assert found["micro_f1"] == pytest.approx(f1_score(truth, guess, average="micro")) == pytest.approx(2 / 3)
    assert found["f1"] == {"a": 1.0, "b": 0.0}, "c neither occurs nor is predicted"
    assert found["macro_f1"] == 0.5
    assert found["exact_match"] == pytest.approx(1 / 3)
    assert found["interval"]["low"] <= 2 / 3 <= found["interval"]["high"]


def test_balanced_labels_weigh_both_sides_the_same(tokenizer: Tokenizer) -> None:
    bundle, task = make(tokenizer, "multilabel"), TASKS["multilabel"]
    encoded = task.encode(examples_of("multilabel", 30), bundle)
    objective = task.objective(FinetuneTraining(class_weight="balanced"), encoded, bundle.labels)
    present = np.concatenate([row.target_value for row in encoded.rows]).sum(axis=0)
    absent_weight, present_weight = objective.class_weights.numpy()
    np.testing.assert_allclose(present * present_weight, 15)
    np.testing.assert_allclose((30 - present) * absent_weight, 15)


def test_scores_and_answers_go_by_the_thresholds_of_the_bundle(tokenizer: Tokenizer) -> None:
    task, examples = TASKS["multilabel"], examples_of("multilabel", 10)
    for limits, given in (((0.01,) * 4, 4), ((0.99, 0.01, 0.99, 0.99), 1)):
        bundle = make(tokenizer, "multilabel", thresholds=limits)  # untrained: every score is near one half
        encoded = task.encode(examples, bundle)
        outputs = outputs_of(bundle.model, encoded.rows)
        assert {len(answer.labels) for answer in task.answers(outputs, encoded, bundle)} == {given}
        hits = sum(len(set(example.labels) & set(("film",) if given == 1 else bundle.labels)) for example in examples)
        assert task.measure(outputs, encoded, bundle)["precision"] == pytest.approx(hits / (10 * given))


def test_a_perfect_score_still_has_an_interval() -> None:
    truth = np.array([[True, False]] * 30)
    assert multilabel_metrics(truth, truth, ["a", "b"], is_final=True)["interval"] == {
        "metric": "micro_f1", "low": pytest.approx(0.9), "high": 1.0,
    }  # fmt: skip


# Regression


def test_regression_metrics_against_scipy() -> None:
    from scipy.stats import pearsonr, spearmanr

    stream = np.random.default_rng(1)
    truth = stream.integers(0, 6, 40).astype(float)
    guess = truth + stream.normal(size=40).round(1)
    found = regression_metrics(truth, guess, is_final=True)
    assert found["pearson"] == pytest.approx(pearsonr(truth, guess).statistic)
    assert found["spearman"] == pytest.approx(spearmanr(truth, guess).statistic)
    assert found["mse"] == pytest.approx(((truth - guess) ** 2).mean())
    assert found["r2"] == pytest.approx(1 - found["mse"] / truth.var())
    assert found["interval"]["low"] < found["mse"] < found["interval"]["high"]
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [1.5, 0, 1.5]


def test_a_correlation_that_does_not_exist_is_missing_and_never_the_best() -> None:
    assert correlation(np.ones(4), np.arange(4.0)) is None
    assert correlation(np.arange(4.0), np.full(4, 1045.7)) is None, "whatever the rounding of their mean"
    score = TASKS["regress"].score
    assert score({"eval_pearson": None, "eval_loss": 1.0}, "pearson") < score(
        {"eval_pearson": -1.0, "eval_loss": 1.0}, "pearson"
    )
    assert score({"eval_mse": 2.0, "eval_loss": 1.0}, "mse") < score({"eval_mse": 1.0, "eval_loss": 1.0}, "mse")


def test_targets_are_standardised_and_answers_are_not(tokenizer: Tokenizer) -> None:
    examples = examples_of("regress", 50)
    task = TASKS["regress"]
    state = task.begin(TaskState(task="regress"), examples)
    bundle = replace(make(tokenizer, "regress"), task=state)
    encoded = task.encode(examples, bundle)
    targets = np.concatenate([row.target_value for row in encoded.rows])
    assert (targets.mean(), targets.std()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-5))
    answers = task.answers(list(targets[:, None]), encoded, bundle)
    assert [answer.value for answer in answers] == pytest.approx([example.value for example in examples], rel=1e-5)
    with pytest.raises(InputError, match="all labels are 3"):
        task.begin(state, [Example("x", "3", "a.csv", 1, None, (), 3.0)] * 2)


# Tagging


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_every_word_is_read_at_its_first_piece_by_every_kind_of_tokenizer(kind: str, lowercase: bool) -> None:
    words = ["Anna's", "café", "in", "New-York", "cost", "1,200€", "(really)", "U.S.", ".", "ﬁne"]
    documents = [Document(" ".join(words[at:] + words[:at]), "x", at) for at in range(len(words))]
    size = 300 if kind == "bpe" else 80
    tokenizer = train_tokenizer(
        documents, TokenizerSettings.model_validate({"kind": kind, "vocab_size": size, "lowercase": lowercase})
    )
    placed = tokenizer.encode_batch_placed([" ".join(words)])[0]
    assert placed.ids.tolist() == tokenizer.encode(" ".join(words)).tolist()
    found, first = first_pieces_of(words, placed)
    assert found.tolist() == list(range(len(words)))
    begins = [len(" ".join([*words[:number], ""])) for number in range(len(words))]
    assert placed.starts[first].tolist() == begins
    others = np.setdiff1d(np.arange(first[0] + 1, len(placed.ids)), first)
    is_inside = ~np.isin(placed.starts[others], begins) | (placed.starts[others] == placed.ends[others])
    repeats = np.isin(placed.starts[others], begins)  # a character of several pieces, as ﬁ or € is
    assert (is_inside | repeats).all()


def test_a_word_without_any_piece_is_counted_and_scored(tokenizer: Tokenizer) -> None:
    bare = train_tokenizer([Document("a film", "x", 1)], TokenizerSettings(kind="wordpiece", vocab_size=64))
    words = ("film", "\u2028", "a")  # a line separator is white space to the pre-tokenizer
    bundle = make(bare, "tag")
    encoded = TASKS["tag"].encode([TaggedExample(words, ("O", "B-PER", "O"), "x", 1)], bundle)
    (row,) = encoded.rows
    assert isinstance(row, WordRow)
    assert row.words.tolist() == [0, 2]
    assert encoded.notes == ("1 word that the tokenizer leaves nothing of, scored as O",)
    metrics = TASKS["tag"].measure(outputs_of(bundle.model, encoded.rows), encoded, bundle)
    assert (metrics["num_words"], metrics["num_unread_words"], metrics["num_entities"]) == (3, 1, 1)
    assert metrics["recall"] == 0


def test_long_sentences_are_read_in_windows_and_every_word_has_one_place(tokenizer: Tokenizer) -> None:
    rows = tagged(12)
    tokens = tuple(token for row in rows for token in row["tokens"])
    tags = tuple(tag for row in rows for tag in row["tags"])
    bundle = make(tokenizer, "tag", max_length=16)
    encoded = TASKS["tag"].encode([TaggedExample(tokens, tags, "x", 1)], bundle)
    assert len(encoded.rows) > 5
    assert max(len(row.ids) for row in encoded.rows) <= 16
    words = np.concatenate([row.words for row in encoded.rows])
    assert sorted(words.tolist()) == list(range(len(tokens)))
    numbers = {tag: number for number, tag in enumerate(bundle.labels)}
    for row in encoded.rows:
        assert row.target_value.tolist() == [numbers[tags[word]] for word in row.words]
        for place, word in zip(row.wanted, row.words, strict=True):
            piece = tokenizer.decode(row.ids[place : place + 1]).strip()
            assert tokens[word].startswith(piece)
    answer = TASKS["tag"].answers(outputs_of(bundle.model, encoded.rows), encoded, bundle)[0]
    assert len(answer.tags) == len(tokens)
    assert min(answer.scores) > 0, "each of them was read"
    assert encoded.notes == ("1 sentence longer than 16 tokens, read in windows",)


# Spans


def context_row(starts: list[int], ends: list[int]) -> ContextRow:
    return ContextRow(0, np.arange(len(starts)), starts=np.array(starts), ends=np.array(ends))


def test_an_answer_is_found_by_its_characters_and_only_whole() -> None:
    row = context_row([-1, -1, 0, 4, 6, 11], [-1, -1, 3, 5, 10, 15])
    assert tokens_of(row, 4, 10) == (3, 4)
    assert tokens_of(row, 6, 9) == (4, 4), "inside a token"
    assert tokens_of(row, 6, 20) is None, "it goes on behind the window"
    assert tokens_of(row, 20, 24) is None


def test_the_best_span_is_the_best_of_all_pairs() -> None:
    stream = np.random.default_rng(0)
    for longest in (1, 2, 3, 30) * 5:
        output = np.log(stream.dirichlet(np.ones(9), 2).T)
        row = context_row([-1, -1, -1, 0, 3, 5, 5, 8, 9], [-1, -1, -1, 2, 4, 5, 7, 9, 12])
        pairs = {
            (a, b): output[a, 0] + output[b, 1]
            for a in (3, 4, 6, 7, 8)
            for b in (3, 4, 6, 7, 8)
            if 0 <= b - a < longest
        }
        (first, last), score = max(pairs.items(), key=lambda item: item[1])
        found = best_span(row, output, longest=longest)
        assert found is not None
        assert (found.start, found.end) == (row.starts[first], row.ends[last])
        assert found.score == pytest.approx(score)
    assert best_span(context_row([-1, -1], [-1, -1]), output[:2], longest=3) is None


def test_contexts_are_read_in_windows_with_the_question_in_front(tokenizer: Tokenizer) -> None:
    (example,) = examples_of("span", 1, padding=6)
    bundle, task = make(tokenizer, "span", max_length=40), TASKS["span"]
    encoded = task.encode([example], bundle)
    front = [tokenizer.sos_id, *tokenizer.encode(example.question)[:18], tokenizer.sep_id]
    assert len(encoded.rows) > 2
    context: dict[int, str] = {}
    for row in encoded.rows:
        assert row.ids[: len(front)].tolist() == front
        assert len(row.ids) <= 40
        for start, end in zip(row.starts[len(front) :], row.ends[len(front) :], strict=True):
            context[start] = example.context[start:end]
    assert "".join(context[start] for start in sorted(context)) == example.context.replace(" ", "")
    answer = example.answers[0]
    holders = [row for row in encoded.rows if row.target_index.tolist() != [0, 0]]
    assert 1 <= len(holders) < len(encoded.rows)
    for row in holders:
        first, last = row.target_index
        assert example.context[row.starts[first] : row.ends[last]] == answer.text


def test_an_answer_that_no_window_holds_whole_is_told(tokenizer: Tokenizer) -> None:
    context = " ".join(["film"] * 60)
    example = SpanExample("q ?", context, (Answer(context, 0),), "x", 1)
    encoded = TASKS["span"].encode([example], make(tokenizer, "span", max_length=24))
    assert any("1 answer not whole in any window" in note for note in encoded.notes)


def test_an_empty_answer_is_given_only_where_train_had_one(tokenizer: Tokenizer) -> None:
    (example,) = examples_of("span", 1)
    task = TASKS["span"]
    for allowed in (False, True):
        bundle = make(tokenizer, "span", has_unanswerable=allowed)
        encoded = task.encode([example], bundle)
        outputs = [np.full((len(row.ids), 2), -9.0) for row in encoded.rows]
        for output in outputs:
            output[0] = 0.0
        (answer,) = task.answers(outputs, encoded, bundle)
        assert (answer.answer == "") == allowed
        assert (answer.start is None) == allowed
    assert task.begin(TaskState(), [replace(example, answers=())]).has_unanswerable


def test_held_out_questions_have_contexts_of_their_own() -> None:
    examples = [example for example in examples_of("span", 20) for _ in range(3)]
    rest, held = TASKS["span"].hold_out(examples, 0.2, 1)
    assert len(rest) + len(held) == 60
    assert len(held) >= 9
    assert not {examples[i].context for i in rest} & {examples[i].context for i in held}
