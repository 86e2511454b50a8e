"""`python -m headswap`, and what torchrun starts."""

from headswap.cli.main import main

if __name__ == "__main__":
    main()
