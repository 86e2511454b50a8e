"""Objectives: what is predicted and how it is scored."""
