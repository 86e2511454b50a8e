"""Generate: sampling (pure) and the generator with its key-value cache."""
