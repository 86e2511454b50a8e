"""Command line. verbs/ has one thin file per command, registered by import path, so help never imports torch."""
