"""Fine-tuning: train a base with a new head on labelled data."""
