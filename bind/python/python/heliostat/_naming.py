"""Asking the control plane for a name: it may have ended meanwhile, or the producer not begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ._binaries import control_plane
from ._errors import NoControlPlane, NotFound

# Between two questions for a name that is not there yet.
RETRY_S = 0.02
# After a failure this process leaves the control plane alone for 0.2 s, whoever serves by then.
PAUSE_S = 0.5

T = TypeVar("T")


def served(make: Callable[[], T]) -> T:
    """What `make` makes with a control plane there. One that ended since it was last asked is
    started anew, and `make` called again."""
    control_plane()
    try:
        return make()
    except NoControlPlane:
        control_plane(again=True)
    ends = time.monotonic() + PAUSE_S
    while True:
        try:
            return make()
        except NoControlPlane:
            if time.monotonic() >= ends:
                raise
            time.sleep(RETRY_S)


def when_found(attach: Callable[[], T], timeout: float) -> T:
    """What `attach` answers once it does not raise NotFound any more, for `timeout` seconds."""
    ends = time.monotonic() + timeout
    while True:
        try:
            return attach()
        except NotFound:
            if time.monotonic() >= ends:
                raise
            time.sleep(RETRY_S)
