"""Arrow batches that come from disk.

Arrow checks of a batch's message that it is one, and that its buffers lie within it; but offsets and lengths inside the
buffers it follows wherever they point. So a batch is looked through before anything reads it, which takes no longer
than the checksum of a log entry.
"""

from __future__ import annotations

import pyarrow as pa

from tailrace.errors import Corrupt


def read(data: bytes | memoryview, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """The batch whose bytes these are; `Corrupt` if they are none of that schema."""
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Corrupt(where=where, reason=f"it is no Arrow batch ({str(error).splitlines()[0][:200]})") from None
    return batch
