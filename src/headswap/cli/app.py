"""The program `headswap`: its commands, their descriptions, and the help pages."""

import sys

from cyclopts import App

from headswap import __version__
from headswap.cli.help_page import HELP_FLAGS, print_overview, print_page

VERB_GROUPS = {
    "Study": {
        "demo": "Run a small example study on film reviews (about 5 minutes on two CPU cores).",
        "study": "Compare models that are trained on different numbers of labels, and report what pre-training gains.",
        "report": "Write the report of a study again from its saved predictions.",
        "compare": "Compare fine-tuning runs that are not part of a study, or the answers of other systems.",
    },
    "Train": {
        "pretrain": "Pre-train a base (a Transformer to be fine-tuned later) on unlabelled text.",
        "adapt": "Continue the pre-training of a base on new text.",
        "finetune": "Put a new head on a base and fine-tune it on labelled text.",
        "merge": "Merge LoRA adapters into the weights.",
    },
    "Use": {
        "predict": "Predict labels, numbers, tags or answers with a fine-tuned model.",
        "generate": "Continue a text with a causal language model.",
        "fill": "Fill in the masked tokens of texts with a masked language model.",
        "embed": "Compute one vector per text.",
        "evaluate": "Score a fine-tuned model on labelled text, or a language model on a corpus.",
        "suggest": "Choose which unlabelled texts to label next.",
    },
    "Data": {
        "doctor": "Check data before training, or a saved model before use.",
        "datasets": "List the data sets that can be given by name instead of a file.",
        "tokenizer": "Train a tokenizer on a corpus.",
        "store": "Encode a corpus as a token store, a folder of token ids.",
        "cache": "List or remove cached token stores and tokenizers.",
    },
    "Models": {
        "bases": "List the installed bases, which other commands accept as box:NAME.",
        "params": "Count the parameters of a model.",
        "estimate": "Estimate the time, memory and disk of a pre-training run.",
        "labels": "List or rename the labels of a fine-tuned model.",
        "export": "Write a model in the format of another library.",
        "pack": "Prepare a pre-trained base for publication as a Python package.",
    },
    "Shell": {
        "completion": "Print the completion script of a shell.",
    },
}
VERBS = {verb: description for verbs in VERB_GROUPS.values() for verb, description in verbs.items()}
HELP = (
    "Pre-train a Transformer on your own text, replace its head, fine-tune it, and measure what pre-training gained. "
    "Start with: headswap demo"
)
MODELS = (
    "A training writes a run folder; the folder bundle/ in it is the model with its tokenizer and labels. Commands "
    "that read a model accept the run folder or the bundle; compare and pack need run folders. box:NAME is an "
    "installed base (see headswap bases). "
    "hf:FOLDER is a folder with a checkpoint of Hugging Face transformers. hf:NAME, such as hf:bert-base-uncased, is a "
    "checkpoint of the Hugging Face Hub; it is read from the local cache of huggingface_hub, and downloaded only with "
    "--allow-download."
)


def make_app() -> App:
    """The application, each command registered by its import path: only the one that runs is imported."""
    app = App(name="headswap", version=__version__, help_flags=[], suppress_keyboard_interrupt=False)
    for verb in VERBS:
        app.command(f"headswap.cli.verbs.{verb}:{verb}", name=verb, help_flags=[])
    return app


def print_help(app: App, argv: list[str], *, everything: bool) -> int:
    if not argv or argv[0] in HELP_FLAGS:
        print_overview(HELP, VERB_GROUPS, MODELS)
    else:
        print_page(app, argv[0], everything=everything)
    sys.stdout.flush()
    return 0
