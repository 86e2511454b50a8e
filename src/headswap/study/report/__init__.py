"""The report of a study: sentences, charts and pages, made from its results."""
