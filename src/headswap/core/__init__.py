"""Core: errors, strict settings, named seeds, atomic files. Free of torch."""
