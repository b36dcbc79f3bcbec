"""The checksum of the format, as its page tells it."""

from __future__ import annotations

import pytest

# Castagnoli's polynomial, its bits reversed.
POLYNOMIAL = 0x82F63B78


@pytest.fixture(scope="session")
def crc32c():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)

    def checksum(data: bytes) -> int:
        value = 0xFFFFFFFF
        for byte in data:
            value = value >> 8 ^ table[(value ^ byte) & 0xFF]
        return value ^ 0xFFFFFFFF

    return checksum
