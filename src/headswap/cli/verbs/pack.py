"""`headswap pack`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from headswap.cli.flags import Output, OutputFlags, switch


def pack(
    run: Path,
    /,
    *,
    out: Path,
    sentences: Path,
    about: Path | None = None,
    licence: str | None = None,
    limits: str | None = None,
    beside: Annotated[tuple[Path, ...], Parameter(negative=())] = (),
    overwrite: Annotated[bool, switch("Replace the packed base in the folder.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Prepare a pre-trained base for publication as a Python package.

    The weights are rounded to bf16, and the held-out loss is computed again. OUT/bundle contains the base with its
    model card. OUT/record contains the recipe and the metrics of the run, and the loss on the sentences of --sentences.
    docs/bases.md describes the package.

    Example: headswap pack runs/base --out my-base --sentences reference.txt --licence MIT --limits "English reviews"

    Parameters
    ----------
    run
        Run folder of a finished headswap pretrain. Its corpus must still exist.
    out
        Folder for the packed base.
    sentences
        Reference sentences, one per line. The loss on them is recorded, so that users of the package can check it.
    about
        TOML file with further entries of the model card, one text or number per name, such as data = "film reviews".
    licence
        Licence of the weights, shown on the model card.
    limits
        What the base is not suited for, or limited to, shown on the model card.
    beside
        Further file to copy into OUT/record. Repeat the flag for several files.
    """
    from headswap.bundle.bundle import OWN_FILES
    from headswap.cli.display import print_json, start_messages
    from headswap.core.outputs import check_folder
    from headswap.pretraining.pack import pack as pack_run

    console = start_messages(quiet=flags.quiet)
    card = _card(about, licence=licence, limits=limits)
    lines = _sentences(sentences)
    _check_files(beside)
    check_folder(out / "bundle", OWN_FILES, overwrite=overwrite, reads=[run])
    packed = pack_run(run, out, about=card, sentences=lines, beside=beside)
    if missing := [name for name in ("licence", "limits") if name not in card and not flags.quiet]:
        flags_of = " and ".join(f"--{name}" for name in missing)
        console.print(
            f"The model card states no {' and no '.join(missing)}, so headswap bases will show 'not stated'. Pass "
            f"{flags_of} to add {'them' if len(missing) > 1 else 'it'}."
        )
    if flags.json:
        print_json(
            {
                "path": str(out),
                "bytes": packed.num_bytes,
                "loss": packed.loss,
                "loss_before_rounding": packed.loss_before_rounding,
                "reference_loss": packed.reference["loss"],
            }
        )
    elif not flags.quiet:
        console.print(
            f"{out}: {packed.num_bytes / 1e6:.2f} MB. Held-out loss {packed.loss:.4f} "
            f"({packed.loss_before_rounding:.4f} before rounding to bf16), {packed.reference['loss']:.4f} on the "
            "reference sentences."
        )


def _card(about: Path | None, **given: str | None) -> dict[str, Any]:
    """The entries of the card: those of the file, then those of the flags."""
    from headswap.core.errors import SettingError
    from headswap.core.settings import read_toml

    entries = read_toml(about) if about is not None else {}
    for name, value in entries.items():
        if not isinstance(value, str | int | float | bool):
            raise SettingError(
                f"{about}: '{name}' is a {type(value).__name__}. An entry of a card is a text, a number, true or false."
            )
    for name, value in given.items():
        if value is None:
            continue
        if not value.strip():
            raise SettingError(f"--{name} is empty. Pass a text, or leave it out.")
        if name in entries:
            raise SettingError(f"'{name}' is in {about} and in --{name}. Pass it once.")
        entries[name] = value
    return entries


def _sentences(file: Path) -> list[str]:
    """The lines of a file; a blank line is an error, since every line is one sentence."""
    from headswap.cli.texts import texts_to_read

    return texts_to_read((), str(file), None)


def _check_files(files: tuple[Path, ...]) -> None:
    from headswap.core.errors import InputError, absent

    for file in files:
        if not file.exists():
            raise InputError(absent(file))
        if not file.is_file():
            raise InputError(f"{file} is a folder. --beside takes files.")
