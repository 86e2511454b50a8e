"""Command line: one file a verb, thin. Verbs are registered by import path, so that help never imports torch."""
