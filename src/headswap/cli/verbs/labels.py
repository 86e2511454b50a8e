"""`headswap labels`."""

from typing import Annotated

from headswap.cli.flags import Output, OutputFlags


def labels(bundle: str, /, *renames: str, flags: Annotated[OutputFlags, Output] = OutputFlags()) -> None:
    """List or rename the labels of a fine-tuned model.

    The weights and the predictions stay the same; only names change. result.json and predictions.npz of a run keep the
    old names.

    Example: headswap labels runs/classifier

    Example: headswap labels runs/classifier neg=negative pos=positive

    Parameters
    ----------
    bundle
        Bundle or run folder of a fine-tuned model.
    renames
        OLD=NEW for each label to rename. All of them are applied at once, so two names can be swapped.
    """
    from headswap.bundle.bundle import Bundle
    from headswap.bundle.rename_labels import parse_changes, rename_labels, renamed_labels
    from headswap.cli.display import print_json, print_line, start_messages

    console = start_messages(quiet=flags.quiet)
    loaded = Bundle.load(bundle)
    names = renamed_labels(loaded, {})
    if renames:
        changes = parse_changes(renames, names)
        names = rename_labels(bundle, changes).labels
    if flags.json:
        print_json({"bundle": bundle, "labels": list(names)})
        return
    if renames and not flags.quiet:
        console.print(f"{bundle}: {len(changes)} of {len(names)} labels renamed.")
    for name in names:
        print_line(name)
