"""A task that uses the new head."""

from headswap.tasks.classify import ClassifyTask


class EndsTask(ClassifyTask):
    """Classification from both ends of a text."""

    name = "ends"
    head = "ends"
