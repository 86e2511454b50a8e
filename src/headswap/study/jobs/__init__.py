"""The jobs of a study: their plan, what they cost, one job, and the check of its outputs."""
