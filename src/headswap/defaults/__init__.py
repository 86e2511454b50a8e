"""Defaults that depend on the data or on the base.

Every value here was chosen by measurement; docs/results.md has the tables. `resolve_pretraining` and
`resolve_finetuning` are pure: they return the recipe with every setting filled in that was left open, and the recipe is
saved with the run. Fixed defaults stay with their settings (the `config.py` of each room).
"""
