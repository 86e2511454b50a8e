"""Back ends that run the jobs of a study: where and in which processes a job runs."""
