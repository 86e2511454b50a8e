"""Small random checkpoints of every family, as transformers writes them, with tokenizers of their kinds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from tiny import sentences

TEXTS = [text for text, _ in sentences(80)]
BERT_SPECIALS = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
ROBERTA_SPECIALS = {
    "bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>",
}  # fmt: skip


def word_pieces() -> tokenizers.Tokenizer:
    """BERT's: WordPiece, `[CLS] text [SEP]`."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=specials))
    ids = {name: made.token_to_id(name) for name in specials}
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )  # fmt: skip
    return made


def byte_pairs(kind: str) -> tokenizers.Tokenizer:
    """Byte-level BPE: RoBERTa's `<s> text </s>`, or GPT-2's without special tokens."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if kind == "roberta" else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=specials, initial_alphabet=alphabet)
    )
    if kind == "roberta":
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def unigrams() -> tokenizers.Tokenizer:
    """Llama's frame, `<s> text`, with a Unigram vocabulary."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    specials = ["<unk>", "<s>", "</s>"]
    made.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=100, special_tokens=specials, unk_token="<unk>"))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


TOKENIZERS: dict[str, Any] = {
    "bert": (word_pieces, BERT_SPECIALS),
    "distilbert": (word_pieces, BERT_SPECIALS),
    "roberta": (lambda: byte_pairs("roberta"), ROBERTA_SPECIALS),
    "gpt2": (lambda: byte_pairs("gpt2"), dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")),
    "llama": (unigrams, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}),
    "eurobert": (word_pieces, BERT_SPECIALS),
}
TOKENIZERS |= {"camembert": TOKENIZERS["roberta"], "xlm-roberta": TOKENIZERS["roberta"], "mistral": TOKENIZERS["llama"]}


def random_config(kind: str, seed: int, vocab_size: int) -> transformers.PretrainedConfig:
    """A configuration of a family, with options drawn from a seed."""
    rng = np.random.default_rng(seed)
    heads, layers = int(rng.choice([2, 4])), int(rng.integers(1, 4))
    width, inner, positions = heads * int(rng.choice([8, 12])), int(rng.integers(20, 70)), int(rng.integers(80, 120))
    act = str(rng.choice(["gelu", "gelu_new", "relu"]))
    eps = float(rng.choice([1e-12, 1e-5, 1e-3]))
    sizes = {
        "vocab_size": vocab_size + int(rng.integers(0, 9)), "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": inner, "max_position_embeddings": positions,
    }  # fmt: skip
    if kind == "gpt2":
        return transformers.GPT2Config(
            vocab_size=sizes["vocab_size"], n_embd=width, n_layer=layers, n_head=heads, n_inner=inner,
            n_positions=positions, activation_function=act, layer_norm_epsilon=eps, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
    if kind == "distilbert":
        return transformers.DistilBertConfig(
            vocab_size=sizes["vocab_size"], dim=width, n_layers=layers, n_heads=heads, hidden_dim=inner,
            max_position_embeddings=positions, activation=str(rng.choice(["gelu", "relu"])),
        )  # fmt: skip
    if kind in ("llama", "mistral", "eurobert"):
        made = {"llama": "LlamaConfig", "mistral": "MistralConfig", "eurobert": "EuroBertConfig"}[kind]
        window = {"sliding_window": None} if kind == "mistral" else {}
        return getattr(transformers, made)(
            **sizes, num_key_value_heads=int(rng.choice([1, 2, heads])), rms_norm_eps=eps,
            rope_parameters={"rope_type": "default", "rope_theta": float(rng.choice([1e4, 5e5]))},
            tie_word_embeddings=bool(rng.integers(2)), bos_token_id=1, eos_token_id=2, pad_token_id=None, **window,
        )  # fmt: skip
    made = {"bert": "BertConfig", "roberta": "RobertaConfig", "camembert": "CamembertConfig",
            "xlm-roberta": "XLMRobertaConfig"}[kind]  # fmt: skip
    segments = 2 if kind == "bert" else 1
    return getattr(transformers, made)(
        **sizes, hidden_act=act, layer_norm_eps=eps, type_vocab_size=segments, pad_token_id=0 if kind == "bert" else 1
    )


def save_checkpoint(folder: Path, kind: str, seed: int, auto: str = "AutoModelForMaskedLM", **changes: Any) -> Any:
    """Write a random checkpoint with its tokenizer; returns the model of transformers."""
    make, specials = TOKENIZERS[kind]
    tokenizer = make()
    config = random_config(kind, seed, tokenizer.get_vocab_size())
    for name, value in changes.items():
        setattr(config, name, value)
    torch.manual_seed(seed)
    model = getattr(transformers, auto).from_config(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if (
                "norm" in name.lower() or "ln_" in name or name.endswith("bias")
            ):  # not the ones and zeros of a new model
                tensor.add_(torch.randn_like(tensor) * 0.3)
            else:
                tensor.mul_(4)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {f"{role}_token": name for role, name in specials.items()}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}), encoding="utf-8"
    )
    return model
