"""Results of a study: read its runs, compute scores, intervals, tests and errors."""
