"""Families of public checkpoints: for each a config and one explicit tensor map, used in both directions."""
