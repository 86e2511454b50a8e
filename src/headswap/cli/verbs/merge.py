"""`headswap merge`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags, switch


def merge(
    bundle: str,
    /,
    *,
    out: Path,
    overwrite: Annotated[bool, switch("Replace the bundle if it exists.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Merge LoRA adapters into the weights.

    The result is a bundle without adapters that computes the same outputs.

    Example: headswap merge runs/lora --out merged

    Parameters
    ----------
    bundle
        Run folder or bundle of a model with LoRA adapters.
    out
        Folder of the new bundle.
    """
    from dataclasses import replace

    from headswap.bundle.bundle import OWN_FILES, Bundle, find_bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.core.errors import InputError, RunError
    from headswap.core.outputs import check_folder
    from headswap.model.golden import GOLDEN_TOLERANCE, largest_gap
    from headswap.model.text_model import merged

    console = start_messages(quiet=flags.quiet)
    check_folder(out, OWN_FILES, overwrite=overwrite, reads=(bundle, find_bundle(Path(bundle))))
    loaded = Bundle.load(bundle)
    lora = loaded.model.shape.lora
    if lora is None:
        raise InputError(f"{bundle} has no LoRA adapters, so there is nothing to merge.")
    plain = replace(loaded, model=merged(loaded.model), card={**loaded.card, "merged adapters of rank": lora.rank})
    gap = largest_gap(loaded.model, plain.model)
    if gap > GOLDEN_TOLERANCE:
        raise RunError(f"The merged model differs from {bundle} by {gap:.3g}, more than {GOLDEN_TOLERANCE:g}.")
    plain.save(out)
    if flags.json:
        print_json({"path": str(out), "largest_difference": gap})
    elif not flags.quiet:
        console.print(f"{out}: LoRA adapters of rank {lora.rank} are merged; the outputs differ by at most {gap:.2g}.")
