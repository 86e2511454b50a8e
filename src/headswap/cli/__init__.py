"""Command line: one file per verb, thin. Verbs are registered by import path, so that help never imports torch."""
