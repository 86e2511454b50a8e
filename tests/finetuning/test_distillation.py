"""Distillation: targets from teachers, a run with them and its resumption, and settings that cannot be used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.batches.labelled_rows import Row, batch_of
from headswap.core.errors import InputError, SettingError
from headswap.data.records import Example
from headswap.finetuning.distillation import distilled_rows
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.choose import task_of
from tiny import SCRATCH, sentences

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [text for text, _ in sentences(5, seed=4)]


def rows_of(run: hs.Run) -> list[Row]:
    """Two labelled rows and three rows with the predictions of two equal teachers."""
    bundle = run.model.bundle
    task = task_of(bundle)
    labelled = [Example(text, label, "rows", 1) for text, label in zip(TEXTS[:2], ("neg", "pos"), strict=True)]
    return distilled_rows(
        [str(run.path)] * 2, task, bundle, task.encode(labelled, bundle), task.inputs(TEXTS[2:], bundle),
        device=torch.device("cpu"), autocast=torch.autocast("cpu", enabled=False),
    )  # fmt: skip


def test_targets_are_the_labels_and_the_mean_probabilities(tiny_classifier: hs.Run) -> None:
    rows, labels = rows_of(tiny_classifier), tiny_classifier.model.labels
    found = np.concatenate([row.target_value for row in rows])
    assert found[:2].tolist() == np.eye(2)[[labels.index("neg"), labels.index("pos")]].tolist()
    np.testing.assert_allclose(found[2:], tiny_classifier.model.predict_proba(TEXTS[2:]), atol=1e-6)
    assert [row.example for row in rows] == [0, 1, 2, 3, 4]


def test_the_loss_and_its_gradients_are_the_cross_entropy_with_the_targets(tiny_classifier: hs.Run) -> None:
    model = hs.load(tiny_classifier.path).bundle.model.double()
    rows = rows_of(tiny_classifier)
    batch = batch_of(rows, is_per_token=False)
    loss = ClassificationObjective().loss_sum(model, batch)
    found = torch.autograd.grad(loss, model.head.output.weight)  # type: ignore[arg-type, union-attr]
    targets = torch.from_numpy(np.concatenate([row.target_value for row in rows])).double()
    expected = -sum(
        targets[row, label] * model(batch).log_softmax(1)[row, label] for row in range(5) for label in (0, 1)
    )
    assert isinstance(expected, torch.Tensor)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(found, torch.autograd.grad(expected, model.head.output.weight))  # type: ignore[arg-type, union-attr]


def settings(folder: Path, teacher: hs.Run, **changes: Any) -> dict[str, Any]:
    file = folder / "texts.txt"
    file.write_text("\n".join(text for text, _ in sentences(40, seed=8)), encoding="utf-8")
    given = {"train": sentences(24, seed=2), "unlabelled": (str(file),), "teachers": (str(teacher.path),) * 2}
    return {**SCRATCH, **given, "num_train_epochs": 3, "save_steps": 2, "seed": 5, **changes}


def test_a_run_with_teachers_resumes_bit_for_bit_and_reads_all_rows(tiny_classifier: hs.Run, tmp_path: Path) -> None:
    given = settings(tmp_path, tiny_classifier, class_weight="balanced", rdrop_alpha=0.5)
    whole = hs.finetune(**given, out=tmp_path / "whole")
    assert whole.result["history"][-1]["step"] == 3 * 4, "64 rows, 16 per step"

    class Stop(hs.Observer):
        def on_evaluation(self, line: dict[str, Any]) -> None:
            if line["epoch"] == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.finetune(**given, out=tmp_path / "stopped", observer=Stop())
    resumed = hs.finetune(**given, out=tmp_path / "stopped", resume=True)
    first, second = (load_file(run.path / "bundle" / "model.safetensors") for run in (whole, resumed))
    assert all(torch.equal(first[name], second[name]) for name in first)
    with pytest.raises(hs.HeadswapError, match="teachers"):
        hs.finetune(**{**given, "teachers": (str(whole.path),) * 2}, out=tmp_path / "stopped", resume=True)


def test_settings_and_teachers_that_cannot_be_used_are_errors(tiny_classifier: hs.Run, tmp_path: Path) -> None:
    given = settings(tmp_path, tiny_classifier)
    with pytest.raises(SettingError, match="teachers need texts without labels"):
        hs.finetune(**{**given, "unlabelled": ()}, out=tmp_path / "a")
    with pytest.raises(SettingError, match="consistency_weight: only used in consistency training"):
        hs.finetune(**given, consistency_weight=2.0, out=tmp_path / "b")
    pairs = [{"text": text, "text_pair": text, "label": label} for text, label in sentences(24, seed=3)]
    of_pairs = hs.finetune(**SCRATCH, train=pairs, text_pair_column="text_pair", max_steps=1, out=tmp_path / "pairs")
    with pytest.raises(InputError, match="reads pairs of texts, and the unlabelled texts are single ones"):
        hs.finetune(**{**given, "teachers": (str(of_pairs.path),)}, out=tmp_path / "d")
    others = [(text, label.upper()) for text, label in sentences(24, seed=2)]
    with pytest.raises(InputError, match="do not have the same labels: only one of them has 'NEG'"):
        hs.finetune(**{**given, "train": others}, out=tmp_path / "c")
