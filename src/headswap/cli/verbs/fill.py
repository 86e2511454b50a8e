"""`headswap fill`."""

from typing import Annotated

from cyclopts import Parameter

from headswap.cli.flags import Device, Download, Fast, Output, OutputFlags
from headswap.training.config import DeviceName, FastName


def fill(
    bundle: str,
    *text: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    text_column: str | None = None,
    top_k: int = 5,
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    allow_download: Annotated[bool, Download] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Fill in the masked tokens of texts with a masked language model.

    Example: headswap fill runs/masked "a <mask> film" --top-k 5

    Parameters
    ----------
    bundle
        A base with a masked objective (masked, masked+nsp, masked+sop or causal+masked): run folder, bundle, installed
        base (box:NAME, see headswap bases), or Hugging Face checkpoint: a folder (hf:FOLDER) or a name on the Hub
        (hf:NAME).
    text
        Texts with <mask> in place of each missing token, which is a word or a part of one; - reads one text per line
        from standard input.
    file
        File with the texts: plain text (one text per line), or .jsonl, .csv, .tsv or .parquet. Give - for standard
        input.
    text_column
        Name of the column with the texts. [default: text]
    top_k
        Number of candidates to show per mask.
    """
    from dataclasses import asdict

    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, print_line, start_messages
    from headswap.cli.texts import texts_to_read
    from headswap.core.errors import SettingError
    from headswap.inference.generate.fill import Filler
    from headswap.training.device import device_with

    start_messages(quiet=flags.quiet)
    if top_k < 1:
        raise SettingError(f"--top-k {top_k} is not allowed: it should be at least 1.")
    texts = texts_to_read(text, file, text_column)
    filler = Filler(Bundle.load(bundle, device=device_with(device, fast=fast), allow_download=allow_download))
    for one in texts:
        filled = filler.fill(one, top_k=top_k)
        if flags.json:
            masks = [[asdict(candidate) for candidate in candidates] for candidates in filled.masks]
            print_json({"prompt": filled.prompt, "text": filled.text, "masks": masks})
            continue
        print_line(filled.text)
        for number, candidates in enumerate(filled.masks, 1):
            shown = ", ".join(f"{candidate.token.strip()} {candidate.score:.3f}" for candidate in candidates)
            print_line(f"  mask {number}: {shown}")
