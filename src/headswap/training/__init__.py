"""Training: the loop, runs and their folders, optimizer, schedule, checkpoints, evaluation, processes."""
