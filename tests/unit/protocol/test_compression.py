"""Compression codecs: round trips, corrupt sections, and decompression bombs."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import aiokafka.codec
import cramjam
import pytest

from odradek.protocol import compression
from odradek.protocol.compression import (
    XERIAL_HEADER,
    CompressionType,
    CorruptCompression,
    SectionTooLarge,
    compress,
    decompress,
)

MIB = 1024 * 1024
TEXT = b"".join(b'{"carrier":"UA","number":%d}' % i for i in range(4000))
CODECS = [c for c in CompressionType if c != CompressionType.NONE]
THEIRS = {
    CompressionType.GZIP: (aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    CompressionType.SNAPPY: (aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    CompressionType.LZ4: (aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    CompressionType.ZSTD: (aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
}


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("content", [b"", b"x", TEXT, bytes(range(256)) * 1024])
def test_every_codec_decompresses_what_it_compressed(
    codec: CompressionType, content: bytes
) -> None:
    assert decompress(codec, compress(codec, content), MIB) == content


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_and_this_module_read_each_others_sections(codec: CompressionType) -> None:
    encode, decode = THEIRS[codec]
    assert bytes(decode(compress(codec, TEXT))) == TEXT
    assert decompress(codec, bytes(encode(TEXT)), MIB) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_compression_levels_are_passed_on(codec: CompressionType) -> None:
    assert decompress(codec, compress(codec, TEXT, 1), MIB) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_a_section_one_byte_above_the_cap_is_refused(codec: CompressionType) -> None:
    section = compress(codec, TEXT)
    assert decompress(codec, section, len(TEXT)) == TEXT
    with pytest.raises(SectionTooLarge):
        decompress(codec, section, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_section_is_corrupt(codec: CompressionType) -> None:
    section = compress(codec, TEXT[:200])
    for kept in range(len(section)):
        try:
            content = decompress(codec, section[:kept], MIB)
        except CorruptCompression:
            continue
        # Without an end mark, a cut at the end of a block looks like the end of the section.
        assert content == b""
        assert kept in (0, len(XERIAL_HEADER))


@pytest.mark.parametrize("codec", CODECS)
def test_random_bytes_are_corrupt(codec: CompressionType) -> None:
    with pytest.raises(CorruptCompression):
        decompress(codec, b"\x11" * 50, MIB)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptCompression):
        decompress(codec, b"", MIB)


class TestSnappy:
    def test_a_raw_block_without_framing_is_read(self) -> None:
        block = bytes(cramjam.snappy.compress_raw(TEXT))
        assert decompress(CompressionType.SNAPPY, block, MIB) == TEXT

    def test_content_larger_than_a_block_is_written_in_blocks(self) -> None:
        section = compress(CompressionType.SNAPPY, TEXT)
        assert section.startswith(XERIAL_HEADER)
        first = int.from_bytes(section[16:20], "big")
        assert len(cramjam.snappy.decompress_raw(section[20 : 20 + first])) == 32 * 1024

    def test_several_streams_are_read_as_one_section(self) -> None:
        section = compress(CompressionType.SNAPPY, b"one") + compress(CompressionType.SNAPPY, b"2")
        assert decompress(CompressionType.SNAPPY, section, MIB) == b"one2"

    @pytest.mark.parametrize(
        "tail",
        [b"\xff\xff\xff\xff" + TEXT[:9], b"\x00\x00", b"\x00\x00\x00\x00", XERIAL_HEADER[:9]],
    )
    def test_a_wrong_block_length_is_corrupt(self, tail: bytes) -> None:
        with pytest.raises(CorruptCompression):
            decompress(CompressionType.SNAPPY, XERIAL_HEADER + tail, MIB)

    def test_a_false_decompressed_length_allocates_nothing(self) -> None:
        claims_4_gib = b"\xff\xff\xff\xff\x0f" + b"\x00" * 20
        with pytest.raises(SectionTooLarge):
            decompress(CompressionType.SNAPPY, claims_4_gib, 16 * MIB)
        claims_8_mib = b"\x80\x80\x80\x04" + b"\x00" * 20
        with pytest.raises(CorruptCompression, match="claims"):
            decompress(CompressionType.SNAPPY, claims_8_mib, 16 * MIB)


class TestLz4:
    # Java's reader stops after one frame and refuses linked blocks; other readers do neither.

    @staticmethod
    def frame(*, linked: bool = False, checksum: bool = False, content: bytes = TEXT) -> bytes:
        compressor = cramjam.lz4.Compressor(level=1, content_checksum=checksum, block_linked=linked)
        compressor.compress(content)
        return bytes(compressor.finish())

    def test_compressed_blocks_are_independent(self) -> None:
        assert compress(CompressionType.LZ4, TEXT)[4] & 0b0010_0000

    def test_linked_blocks_are_refused(self) -> None:
        with pytest.raises(CorruptCompression, match="independent"):
            decompress(CompressionType.LZ4, self.frame(linked=True), MIB)

    def test_a_content_checksum_is_read_and_checked(self) -> None:
        framed = self.frame(checksum=True)
        assert decompress(CompressionType.LZ4, framed, MIB) == TEXT
        with pytest.raises(CorruptCompression):
            decompress(CompressionType.LZ4, framed[:-1] + bytes([framed[-1] ^ 1]), MIB)

    def test_a_frame_of_many_blocks_is_read(self) -> None:
        content = TEXT * 8
        assert decompress(CompressionType.LZ4, self.frame(content=content), MIB) == content

    @pytest.mark.parametrize("tail", [b"\x00", b"garbage", frame.__func__()])  # type: ignore[attr-defined]
    def test_bytes_after_the_frame_are_refused(self, tail: bytes) -> None:
        with pytest.raises(CorruptCompression, match="one frame"):
            decompress(CompressionType.LZ4, self.frame() + tail, MIB)


def test_several_gzip_members_are_read_as_one_section() -> None:
    section = gzip.compress(b"one") + gzip.compress(b"two")
    assert decompress(CompressionType.GZIP, section, MIB) == b"onetwo"


def test_decompress_into_stops_at_the_end_of_its_buffer() -> None:
    for library in (cramjam.gzip, cramjam.lz4, cramjam.zstd):
        section = bytes(library.compress(TEXT))
        output = bytearray(b"\xaa" * 64)
        with pytest.raises(cramjam.DecompressionError, match=compression.BUFFER_FULL):
            library.decompress_into(section, memoryview(output)[:32])
        assert output[32:] == b"\xaa" * 32


BOMBS = """
import resource, sys, zlib
import cramjam
from odradek.protocol.compression import (
    CompressionType,
    CorruptCompression,
    SectionTooLarge,
    decompress,
)

MIB = 1024 * 1024

def bomb(compressor, chunks=64):
    zeros = bytes(MIB)
    for _ in range(chunks):
        compressor.compress(zeros)
    return bytes(compressor.finish())

def gzip_bomb():
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(MIB)
    return b"".join(deflate.compress(zeros) for _ in range(64)) + deflate.flush()

sections = {
    CompressionType.GZIP: [gzip_bomb()],
    CompressionType.ZSTD: [bomb(cramjam.zstd.Compressor(level=1)),
                           bomb(cramjam.zstd.Compressor(level=22))],
    CompressionType.LZ4: [bomb(cramjam.lz4.Compressor(level=1, block_linked=False,
                                                      content_checksum=False))],
    CompressionType.SNAPPY: [bytes(cramjam.snappy.compress_raw(bytes(64 * MIB)))],
}
GIANT_WINDOW = bytes.fromhex("28b52ffd00a8") + b"\\x01\\x00\\x00"  # 2 GiB, one empty block

# Reset the peak, which includes making the bombs.
open("/proc/self/clear_refs", "w").write("5")
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
before = peak()
for codec, bombs in sections.items():
    for section in bombs:
        try:
            decompress(codec, section, 16 * MIB)
        except SectionTooLarge:
            continue
        raise SystemExit(f"{codec!r} got through")
try:
    decompress(CompressionType.ZSTD, GIANT_WINDOW, 16 * MIB)
except CorruptCompression:
    pass
print(peak() - before)
"""


def test_a_decompression_bomb_is_refused_within_bounded_memory() -> None:
    """64 MiB out of each codec, and a zstd window of 2 GiB; the cap is 16 MiB.

    In a process of its own, since the peak of resident memory is the process's.
    """
    done = subprocess.run(
        [sys.executable, "-c", BOMBS], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 64  # the output, zstd's window, and a buffer that was too small


def test_a_decompression_bomb_costs_a_bounded_number_of_attempts() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    section = deflate.compress(bytes(64 * MIB)) + deflate.flush()
    sizes: list[int] = []

    class Recorder:
        @staticmethod
        def decompress_into(data: bytes, output: bytearray) -> int:
            sizes.append(len(output))
            return int(cramjam.gzip.decompress_into(data, output))

    with pytest.raises(SectionTooLarge):
        compression._decompress(Recorder, section, 16 * MIB)
    assert sizes[-1] == 16 * MIB
    assert len(sizes) <= 13
    assert sum(sizes) <= 48 * MIB
