"""Command line: one thin file per command. Commands are registered by import path, so help never imports torch."""
