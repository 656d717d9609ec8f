"""Compression of a body as a whole. The libraries are optional and imported by whoever needs them first."""

import threading
from enum import IntEnum
from typing import Any

from pydanube.model import Buffer
from pydanube.model.errors import InvalidBatch, MissingCodec
from pydanube.model.limits import BATCH_BYTES_MAX


class Codec(IntEnum):
    """Written to disk: a number never changes its meaning."""

    NONE = 0
    LZ4 = 1  # one raw block
    ZSTD = 2  # one frame that states its content size


CODECS_KNOWN = len(Codec)

# Measured on logs in JSON: level 1 gives most of what the higher levels give, at several times their speed.
_ZSTD_LEVEL = 1
# A frame may ask its reader for a window of memory; no honest one needs more than a largest body, rounded up.
_ZSTD_WINDOW_BYTES_MAX = 1 << (BATCH_BYTES_MAX - 1).bit_length()

# Making a zstd context takes longer than most batches take in it; it may serve one thread at a time.
_contexts = threading.local()


def compress(body: bytes, codec: Codec) -> bytes:
    if codec == Codec.LZ4:
        return bytes(_lz4_block().compress(body, store_size=False))
    return bytes(_zstd_compressor(_zstandard()).compress(body))


def decompress(data: Buffer, codec: int, raw_bytes: int) -> bytes:
    """The body of exactly `raw_bytes`, which the caller has checked against its limit; nothing more is allocated."""
    body = _lz4_decompress(data, raw_bytes) if codec == Codec.LZ4 else _zstd_decompress(data, raw_bytes)
    if len(body) != raw_bytes:
        raise InvalidBatch(f"the body decompresses to {len(body)} bytes, its head declares {raw_bytes}")
    return body


def _lz4_decompress(data: Buffer, raw_bytes: int) -> bytes:
    block = _lz4_block()
    try:
        return bytes(block.decompress(data, uncompressed_size=raw_bytes))
    except block.LZ4BlockError as error:
        raise InvalidBatch(f"the body is no lz4 block of {raw_bytes} bytes: {error}") from error


def _zstd_decompress(data: Buffer, raw_bytes: int) -> bytes:
    zstandard = _zstandard()
    try:
        # The library allocates what the frame claims, so the claim is compared first.
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed != raw_bytes:
            raise InvalidBatch(f"the body's zstd frame claims {claimed} bytes, its head declares {raw_bytes}")
        decompressor = _zstd_decompressor(zstandard)
        return bytes(decompressor.decompress(data, max_output_size=raw_bytes, allow_extra_data=False))
    except zstandard.ZstdError as error:
        raise InvalidBatch(f"the body is no zstd frame: {error}") from error


def _zstd_compressor(zstandard: Any) -> Any:
    if not hasattr(_contexts, "compressor"):
        _contexts.compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    return _contexts.compressor


def _zstd_decompressor(zstandard: Any) -> Any:
    if not hasattr(_contexts, "decompressor"):
        _contexts.decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    return _contexts.decompressor


def _lz4_block() -> Any:
    try:
        import lz4.block
    except ImportError as error:
        raise MissingCodec("lz4 is not installed: pip install 'pydanube[compression]'") from error
    return lz4.block


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingCodec("zstandard is not installed: pip install 'pydanube[compression]'") from error
    return zstandard
