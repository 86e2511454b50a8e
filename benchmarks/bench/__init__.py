"""headswap against its peers: each row runs all sides in one run, alternating, on the same work."""
