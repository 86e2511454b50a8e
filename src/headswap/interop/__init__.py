"""Models of other libraries as headswap models, and headswap models as theirs."""
