"""The tables of heads, objectives, tasks, baselines, export formats, trackers: a new one is one file and one line here.

A line has the name that settings and flags use, and the module and the class or function that it stands for, which
declares everything else that other rooms need to know. It is imported when it is used, so settings and help pages know
the names without importing torch, and so do rooms below that of the class.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from headswap.baselines.arm_baseline import ArmBaseline, LinearModel
    from headswap.baselines.classify import ClassifyBaseline
    from headswap.baselines.scores import Baseline
    from headswap.bundle.bundle import Bundle
    from headswap.finetuning.prediction_file import AnyPredictions
    from headswap.interop.target import ExportTarget
    from headswap.model.heads import TaskHead
    from headswap.objectives.objective import PretrainingObjective
    from headswap.tasks.task import Task
    from headswap.training.tracker import Tracker

T = TypeVar("T", covariant=True)


class Registry(dict[str, str], Generic[T]):
    """Names, and for each the module below `headswap` and the name in it: `model.heads:TokenHead`."""

    def load(self, name: str) -> T:
        """What a name stands for."""
        module, _, attribute = self[name].partition(":")
        return getattr(import_module(f"headswap.{module}"), attribute)


HEADS: "Registry[type[TaskHead]]" = Registry(
    {
        "classify": "model.heads:ClassificationHead",
        "compare": "model.comparison_head:ComparisonHead",
        "tag": "model.heads:TokenHead",
        "span": "model.heads:SpanHead",
    }
)
OBJECTIVES: "Registry[type[PretrainingObjective]]" = Registry(
    {
        "causal": "objectives.causal:CausalObjective",
        "masked": "objectives.masked:MaskedObjective",
        "causal+masked": "objectives.causal_masked:CausalMaskedObjective",
        "masked+nsp": "objectives.sentence_pairs:NextSentenceObjective",
        "masked+sop": "objectives.sentence_pairs:SentenceOrderObjective",
    }
)
TASKS: "Registry[type[Task]]" = Registry(
    {
        "classify": "tasks.classify:ClassifyTask",
        "multilabel": "tasks.multilabel:MultiLabelTask",
        "regress": "tasks.regress:RegressTask",
        "tag": "tasks.tag:TagTask",
        "span": "tasks.span:SpanTask",
    }
)
CLASSIFY_BASELINES: "Registry[ClassifyBaseline]" = Registry(
    {
        "majority": "baselines.classify:majority_baseline",
        "tfidf": "baselines.classify:tfidf_baseline",
    }
)
"""Of `finetune` and `compare`; these are also arms of a study."""
STUDY_BASELINES: "Registry[ClassifyBaseline]" = Registry(
    {
        **CLASSIFY_BASELINES,
        "nbsvm": "baselines.nbsvm:nbsvm_baseline",
        "lsa": "baselines.lsa:lsa_baseline",
    }
)
"""The arms of a study of classifiers that are baselines."""
ARM_BASELINES: "dict[str, Registry[ArmBaseline]]" = {
    "classify": Registry({**STUDY_BASELINES, "pairs": "baselines.pairs:pairs_baseline"}),
    "multilabel": Registry(
        {
            "majority": "baselines.multilabel:majority_baseline",
            "tfidf": "baselines.multilabel:tfidf_baseline",
        }
    ),
    "regress": Registry(
        {
            "mean": "baselines.regress:mean_baseline",
            "tfidf": "baselines.regress:tfidf_baseline",
            "pairs": "baselines.pairs:ridge_baseline",
        }
    ),
    "tag": Registry(
        {
            "majority": "baselines.tag:majority_baseline",
            "linear-tagger": "baselines.linear_tagger:tagger_baseline",
        }
    ),
    "span": Registry(
        {
            "nearest sentence": "baselines.span:nearest_baseline",
            "linear-answers": "baselines.linear_answers:answers_baseline",
        }
    ),
}
"""The arms of a study that are baselines, by task. Each predicts the test set from train and test. Those that are also
in `BASELINES` are arms by default."""
BASELINES: "dict[str, Registry[Baseline]]" = {
    "classify": Registry({**CLASSIFY_BASELINES, "pairs": "baselines.pairs:pairs_baseline"}),
    "multilabel": Registry(
        {
            "majority": "baselines.multilabel:most_frequent_labels",
            "tfidf": "baselines.multilabel:tfidf_labels",
        }
    ),
    "regress": Registry({**ARM_BASELINES["regress"]}),
    "tag": Registry(
        {
            "majority": "baselines.tag:most_frequent_tags",
            "linear-tagger": "baselines.linear_tagger:linear_tagger",
        }
    ),
    "span": Registry(
        {
            "nearest sentence": "baselines.span:nearest_sentence",
            "linear-answers": "baselines.linear_answers:linear_answers",
        }
    ),
}
"""By task, then by the name in tables. Each is a function of train and test that returns the metrics on test."""

PREDICTIONS: "Registry[type[AnyPredictions]]" = Registry(
    {
        "classes": "finetuning.prediction_file:Predictions",
        "values": "finetuning.prediction_file:ValuePredictions",
        "label sets": "finetuning.label_set_predictions:LabelSetPredictions",
        "tags": "finetuning.tag_predictions:TagPredictions",
        "answers": "finetuning.answer_predictions:AnswerPredictions",
    }
)
"""Kinds of test predictions, which a task names in `Task.prediction_kind`."""
LINEAR_MODELS: "Registry[LinearModel]" = Registry(
    {
        "classes": "baselines.linear:logistic_model",
        "values": "baselines.regress:ridge_model",
        "label sets": "baselines.multilabel:logistic_models",
    }
)
"""The linear model of the TF-IDF baseline and of the arm `linear`, per kind of predictions that has one."""
CHECKPOINTS: "Registry[Callable[..., Bundle]]" = Registry({"hf": "interop.hf_in:load_checkpoint"})
"""Readers of models that are no bundles, by the prefix of their names; they are in a room above that of the bundle."""
EXPORTS: "Registry[type[ExportTarget]]" = Registry(
    {
        "hf": "interop.hf_out:HuggingFace",
        "sentence-transformers": "interop.sentence_transformers:SentenceTransformers",
        "peft": "interop.peft:Peft",
        "onnx": "interop.onnx_out:Onnx",
    }
)
"""Formats that `headswap export --to` writes."""
TRACKERS: "Registry[type[Tracker]]" = Registry(
    {
        "tensorboard": "training.tensorboard_tracker:TensorBoard",
        "mlflow": "training.mlflow_tracker:MLflow",
    }
)
"""Tools that `--report-to` also writes the metrics of a run for."""

if TYPE_CHECKING:
    ExportName = str
    HeadKind = str
    HeadName = str
    ObjectiveName = str
    TaskName = str
    TrackerName = str
else:  # settings accept the names above, and help pages and error messages list them
    ExportName = Literal[tuple(EXPORTS)]
    HeadKind = Literal[("lm", *HEADS)]
    HeadName = Literal[("none", "lm", *HEADS)]
    ObjectiveName = Literal[tuple(OBJECTIVES)]
    TaskName = Literal[tuple(TASKS)]
    TrackerName = Literal[tuple(TRACKERS)]
