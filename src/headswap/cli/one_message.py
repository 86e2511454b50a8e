"""Under torchrun every process finds the same mistake of the user: it is printed by the first of them only.

The processes of one machine share the folder in which torchrun expects their error files. The first process that fails
with a message leaves a file there that is named by a hash of the message. torchrun stops the others when one fails, so
their "Interrupted." is left out once a process has printed why it failed. A message that only one process has is always
printed.
"""

import hashlib
import os
from pathlib import Path

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
PREFIX = "headswap-message-"
INTERRUPTED = "Interrupted."


def is_printed_here(message: str) -> bool:
    """Whether this process prints the message: alone always, under torchrun if no other process did."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return True
    place = _shared_folder()
    if place is None:
        return os.environ.get("RANK", "0") == "0"
    if message == INTERRUPTED and any(place.glob(f"{PREFIX}*")):
        return False
    try:
        with (place / f"{PREFIX}{hashlib.sha256(message.encode()).hexdigest()[:16]}").open("x"):
            return True
    except FileExistsError:
        return False
    except OSError:
        return os.environ.get("RANK", "0") == "0"


def _shared_folder() -> Path | None:
    """The folder of this start of the processes; torchrun removes it at the end."""
    file = os.environ.get(ERROR_FILE)
    folder = Path(file).parent.parent if file else None
    return folder if folder is not None and folder.is_dir() else None
