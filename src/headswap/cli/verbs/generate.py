"""`headswap generate`."""

from typing import Annotated

from headswap.cli.flags import Device, Download, FastGeneration, Output, OutputFlags, section
from headswap.inference.generate.config import SamplingSettings
from headswap.training.config import DeviceName, FastName


def generate(
    bundle: str,
    prompt: str = "",
    /,
    *,
    sampling: Annotated[SamplingSettings | None, section("Sampling")] = None,
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, FastGeneration] = "auto",
    allow_download: Annotated[bool, Download] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Continue a text with a causal language model.

    Example: headswap generate runs/base "This film" --max-new-tokens 60 --temperature 0.8 --top-k 50

    Parameters
    ----------
    bundle
        A base with the objective causal or causal+masked: run folder, bundle, installed base (box:NAME, see headswap
        bases), or Hugging Face checkpoint: a folder (hf:FOLDER) or a name on the Hub (hf:NAME).
    prompt
        Text to continue. Without it a new document is generated; - reads one prompt per line from standard input. The
        continuations of several prompts are separated by an empty line; with --json there is one object per line.
    """
    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, print_text, start_messages
    from headswap.cli.texts import texts_to_read
    from headswap.inference.generate.generator import Generator
    from headswap.training.device import device_with

    start_messages(quiet=flags.quiet)
    prompts = texts_to_read(["-"], None, None) if prompt == "-" else [prompt]
    generator = Generator(Bundle.load(bundle, device=device_with(device, fast=fast), allow_download=allow_download))
    for number, found in enumerate(generator.continue_texts(prompts, sampling or SamplingSettings())):
        if flags.json:
            print_json(
                {"prompt": found.prompt, "text": found.text, "num_tokens": found.num_tokens, "ended": found.ended}
            )
        else:
            print_text(("\n" if number else "") + found.prompt + found.text)
