"""A small English base for headswap that has read film reviews: `headswap generate box:reviews-en "this film"`.

`BUNDLE` is what the entry point of the group `headswap.bases` names. The folder `record` beside it holds the recipe,
the metrics and the result of the run, what the contamination guard found, and a reference loss.
"""

from pathlib import Path

BUNDLE = Path(__file__).parent / "bundle"
RECORD = Path(__file__).parent / "record"
