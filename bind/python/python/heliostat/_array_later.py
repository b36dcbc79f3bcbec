"""Operations on cluster memory that tasks of an event loop await, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ._memory_operations import Completion, MemoryOperations

Submit = Callable[[MemoryOperations], int]


class Awaited:
    """One event loop's operations. Its descriptor is watched while there are any, and by no thread of
    Python."""

    def __init__(self, operations: MemoryOperations, limit: int) -> None:
        self._operations = operations
        self._waiting: dict[int, asyncio.Future[Completion]] = {}
        # Each has one place from its submission until it was told of, whoever still waits for it.
        self._places = asyncio.Semaphore(limit)

    async def one(self, submit: Submit) -> Completion:
        """Submits an operation, as soon as there is a place for it, and waits for its end. Cancelled, it
        is given up."""
        await self._places.acquire()
        try:
            number = submit(self._operations)
        except BaseException:
            self._places.release()
            raise
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()
        if not self._waiting:
            loop.add_reader(self._operations.fileno(), self._told, loop)
        self._waiting[number] = future
        try:
            return await future
        except asyncio.CancelledError:
            self._operations.cancel(number)
            raise

    def _told(self, loop: asyncio.AbstractEventLoop) -> None:
        while completion := self._operations.take():
            future = self._waiting.pop(completion.number, None)
            self._places.release()
            # One that was cancelled has an end that nobody waits for.
            if future is not None and not future.done():
                future.set_result(completion)
        if not self._waiting:
            loop.remove_reader(self._operations.fileno())
