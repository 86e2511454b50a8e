"""`headswap export`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags, section, switch
from headswap.interop.config import ExportSettings
from headswap.registry import ExportName


def export(
    bundle: str,
    /,
    *,
    to: ExportName,
    out: Path,
    overwrite: Annotated[bool, switch("Replace the export in the folder.")] = False,
    settings: Annotated[ExportSettings | None, section("Export")] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Write a model in the format of another library.

    A model that the format cannot express is refused; the message names the setting that prevents it. docs/interop.md
    lists what each format can express.

    Example: headswap export runs/llama --to hf --out exported

    Parameters
    ----------
    bundle
        Run folder or bundle, or an installed base (box:NAME, see headswap bases).
    to
        Format of the export. hf: Hugging Face transformers, loaded with AutoModel classes. sentence-transformers: the
        base and its pooling, one vector per text. peft: the LoRA adapters and the head, and the base as a checkpoint
        in the subfolder base. onnx: a graph for onnxruntime.
    out
        Folder of the export.
    """
    from headswap.bundle.bundle import Bundle, find_bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.core.outputs import check_folder
    from headswap.registry import EXPORTS

    console = start_messages(quiet=flags.quiet)
    settings = settings or ExportSettings()
    settings.check(to)
    target = EXPORTS.load(to)()
    check_folder(out, target.own_files(), overwrite=overwrite, reads=(bundle, find_bundle(Path(bundle))))
    exported = target.export(Bundle.load(bundle), out, settings)
    if flags.json:
        print_json({"path": str(out), "to": to, **exported.facts})
    elif not flags.quiet:
        console.print(f"{out}: {exported.sentence}")
