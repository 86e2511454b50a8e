"""Training: the loop, gradients, optimizer, schedule, checkpoints, run folders, devices and processes."""
