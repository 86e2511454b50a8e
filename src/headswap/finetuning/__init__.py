"""Fine-tuning: a base and labels in, a model for a task out."""
