"""Generation: sampling, the key-value cache, filling masks."""
