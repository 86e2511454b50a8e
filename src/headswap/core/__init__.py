"""Core: errors, strict settings, named seeds, atomic files. Imports no torch."""
