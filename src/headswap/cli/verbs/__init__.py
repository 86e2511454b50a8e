"""The commands of the command line: `headswap NAME` is the function NAME of NAME.py."""
