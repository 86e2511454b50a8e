"""Tasks: what a labelled set asks of a model. One class a task, in a file of its own; `table.py` lists them."""
