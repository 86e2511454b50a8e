"""Run the jobs of a study: their order (job_queue.py), and the back ends, where and in which processes a job runs."""
