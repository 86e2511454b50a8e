"""The command `headswap`, `python -m headswap`, and what torchrun starts."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the verb of the command line; Ctrl-C while the verbs are still being imported is no traceback either."""
    try:
        from headswap.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("headswap: Interrupted.", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
