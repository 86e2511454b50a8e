"""`python -m headswap`, and what torchrun starts."""

from headswap.cli.app import main

if __name__ == "__main__":
    main()
