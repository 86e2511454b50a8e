"""Model: attention, positions, base, heads, objectives, fused head and loss, presets, parameter account."""
