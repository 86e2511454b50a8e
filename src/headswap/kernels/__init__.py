"""Kernels: fast losses, CUDA graphs, and the policy that decides which of them are used."""
