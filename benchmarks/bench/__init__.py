"""Speed of headswap and of other libraries: each row runs all sides in one run, alternating, on the same work."""
