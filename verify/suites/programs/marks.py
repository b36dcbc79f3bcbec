"""Files in the run's folder of marks, by which a client and its case wait for each other."""

import os
import time
from pathlib import Path

MARKS = Path(os.environ["MARKS"])


def make(name: str) -> None:
    """Tells the case that this client has come to `name`."""
    (MARKS / name).touch()


def wait(name: str) -> None:
    """Waits until the case has made `name`."""
    while not (MARKS / name).exists():
        time.sleep(0.005)
