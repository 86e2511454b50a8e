"""Study: arms, baselines, statistics and what they say about pre-training."""
