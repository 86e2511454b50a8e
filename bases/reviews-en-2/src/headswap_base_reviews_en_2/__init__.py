"""A small English base for headswap, trained on film reviews: it generates text and fills gaps.

`headswap generate box:reviews-en-2 "this film"`, `headswap fill box:reviews-en-2 "a <mask> film"`. `BUNDLE` is the
object of the entry point in the group `headswap.bases`. The folder `record` contains the recipe, the metrics and the
result of the run, the result of the overlap check (guard.json), and a reference loss.
"""

from pathlib import Path

BUNDLE = Path(__file__).parent / "bundle"
RECORD = Path(__file__).parent / "record"
