"""Tasks: what is predicted from a labelled set. One class per task, each in its own file; registry.py lists them."""
