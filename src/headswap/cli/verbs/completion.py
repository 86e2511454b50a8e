"""`headswap completion`."""

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the completion script of a shell.

    Write the output to a file and load that file in the startup file of the shell, for example with source in
    ~/.bashrc.

    Example: headswap completion bash

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from headswap.cli.app import make_app

    print(make_app().generate_completion(prog_name="headswap", shell=shell))
