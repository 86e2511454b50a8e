"""Model: shapes and presets, attention, positions, base, heads, adapters, head swap, weights, parameter counts."""
