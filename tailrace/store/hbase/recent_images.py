"""Images that this process has written last: it need not read them again while no other process resolves.

The cache is as of one transaction. Numbers of transactions only grow, whoever makes them. So while the tail has this
number, no other process has made one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.store.hbase.images import Image, Images

MOST = 200_000  # images; about 60 MB


class RecentImages:
    def __init__(self, images: Images, most: int = MOST) -> None:
        self._images, self._most = images, most
        self._known: dict[bytes, Image] = {}  # those written last are at the end
        self._transaction = -1

    def read(self, keys: Sequence[bytes], transaction: int) -> list[Image | None]:
        """The images as of a transaction, by whole keys."""
        if transaction != self._transaction:
            self._known.clear()
        missing = [key for key in keys if key not in self._known]
        found = dict(zip(missing, self._images.read(missing, transaction), strict=True))
        return [self._known.get(key) or found[key] for key in keys]

    def note(self, images: Sequence[tuple[bytes, Image]], before: int, transaction: int) -> None:
        """Takes in what a transaction has written, after it was committed. `before` is the one that it followed."""
        if before != self._transaction:
            self._known.clear()
        self._transaction = transaction
        for key, image in images:
            self._known.pop(key, None)
            if image.row is not None:  # images of deleted rows may be forgotten meanwhile
                self._known[key] = image
        for key in list(self._known)[: max(0, len(self._known) - self._most)]:
            del self._known[key]
