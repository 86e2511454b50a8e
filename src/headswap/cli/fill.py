"""`headswap fill`."""

from typing import Annotated

from cyclopts import Parameter

from headswap.cli.flags import Device, Fast, Output, OutputFlags
from headswap.training.config import DeviceName, FastName


def fill(
    bundle: str,
    *text: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    text_column: str | None = None,
    top_k: int = 5,
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Fill in the masked words of texts with a masked language model.

    Example: headswap fill runs/base "a <mask> film" --top-k 5

    Parameters
    ----------
    bundle
        Bundle or run folder of a masked language model, or box:NAME (see headswap bases).
    text
        Texts with <mask> where a word is missing.
    file
        Read the texts from this file instead (- for standard input).
    text_column
        Name of the text column of the file; text by default.
    top_k
        How many words to show for each mask.
    """
    from dataclasses import asdict

    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.texts import texts_to_read
    from headswap.core.errors import SettingError
    from headswap.inference.generate.fill import Filler
    from headswap.training.device import device_with

    start_messages(quiet=flags.quiet)
    if top_k < 1:
        raise SettingError(f"--top-k {top_k} is not allowed: it should be at least 1.")
    texts = texts_to_read(text, file, text_column)
    filler = Filler(Bundle.load(bundle, device=device_with(device, fast=fast)))
    for one in texts:
        answer = filler.fill(one, top_k=top_k)
        if flags.json:
            masks = [[asdict(candidate) for candidate in candidates] for candidates in answer.masks]
            print_json({"prompt": answer.prompt, "text": answer.text, "masks": masks})
            continue
        print(answer.text)
        for number, candidates in enumerate(answer.masks, 1):
            shown = ", ".join(f"{candidate.token.strip()} {candidate.score:.3f}" for candidate in candidates)
            print(f"  mask {number}: {shown}")
