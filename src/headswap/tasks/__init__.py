"""Tasks: what a labelled set asks of a model. One class per task, in a file of its own; registry.py lists them."""
