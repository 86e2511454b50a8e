"""Kernels: fast losses, CUDA graphs, and the policy that says which of them are used."""
