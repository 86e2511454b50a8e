"""Data: files, folders and named sets become documents and labelled examples; checks of both."""
