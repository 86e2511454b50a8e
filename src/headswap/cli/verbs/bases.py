"""`headswap bases`."""

from typing import TYPE_CHECKING, Annotated

from headswap.cli.flags import Output, OutputFlags

if TYPE_CHECKING:
    from headswap.core.installed_bases import BaseInfo


def bases(*, flags: Annotated[OutputFlags, Output] = OutputFlags()) -> None:
    """List the installed bases, which other commands accept as box:NAME.

    An installed base is a pre-trained base in a Python package. Example of its use: headswap finetune --base box:NAME.

    Example: headswap bases
    """
    from headswap.cli.display import print_json, print_table, start_messages
    from headswap.core.installed_bases import OWN_BASE, list_bases, own_package

    found = list_bases()
    if flags.json:
        print_json({"bases": [entry.as_json() for entry in found]})
        return
    if not found:
        message = f"No base is installed. The base of headswap is called {OWN_BASE}. {own_package(OWN_BASE)}"
        start_messages(quiet=flags.quiet).print(message)
        return
    columns = ("name", "package", "objective", "shape", "weights", "trained on", "held out", "licence", "limits")
    print_table("Installed bases", columns, [_row(entry) for entry in found])


def _row(entry: "BaseInfo") -> tuple[str, ...]:
    package = f"{entry.package} {entry.version}".strip()
    if entry.problem:
        return (f"box:{entry.name}", package, f"cannot be used: {entry.problem}", *[""] * 6)
    parameters = f"{entry.parameters / 1e6:.1f} M parameters, " if entry.parameters else ""
    held_out = f"loss {entry.held_out_loss:.3f}" if entry.held_out_loss is not None else "not recorded"
    if entry.held_out_bits_per_byte is not None:
        held_out += f", {entry.held_out_bits_per_byte:.3f} bits per byte"
    return (
        f"box:{entry.name}",
        package,
        entry.objective or "not recorded",
        f"{entry.num_hidden_layers} layers of {entry.hidden_size}, vocabulary {entry.vocab_size:,}, "
        f"{entry.max_length} tokens",
        f"{parameters}{(entry.bytes or 0) / 1e6:.1f} MB",
        f"{entry.tokens / 1e6:.0f} M tokens" if entry.tokens else "not recorded",
        held_out,
        entry.licence or "not stated",
        entry.limits or "not stated",
    )
