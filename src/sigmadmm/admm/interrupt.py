"""Ctrl-C as a request that the loop grants between iterations, so that no iterate is left half done."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While active, the first SIGINT sets `requested`; a second one is a KeyboardInterrupt, as usual.

    Signal handlers belong to the main thread; elsewhere this does nothing. Nor where SIGINT is ignored (in a
    worker process, say) or was taken over by a program that embeds Python.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None
        self._active = False

    def __enter__(self) -> Interrupt:
        is_main = threading.current_thread() is threading.main_thread()
        self._active = is_main and signal.getsignal(signal.SIGINT) not in (None, signal.SIG_IGN)
        if self._active:
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._previous)
