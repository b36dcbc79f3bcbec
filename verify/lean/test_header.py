"""The headers compile wherever they claim to: C11 without a library, C++17, and CUDA where nvcc is there."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from test_workers import HEADERS, ROOT

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
TEXT = '#include "heliostat_lean.h"\nint use(hl_lean *lean, hl_object file) { return (int)hl_read(lean, file, 0, hl_payload(lean), 8); }\n'


def compiled(tmp_path, compiler: str, ending: str, *flags: str) -> bytes:
    source, binary = tmp_path / f"use.{ending}", tmp_path / "use.o"
    source.write_text(TEXT)
    subprocess.run([compiler, *flags, *WARNINGS, f"-I{HEADERS}", "-O1", "-c", "-o", binary, source], check=True)
    return subprocess.run(["nm", "-u", binary], check=True, capture_output=True).stdout


@pytest.mark.parametrize("compiler", COMPILERS)
def test_c_without_a_library_needs_no_symbol_of_anybody(tmp_path, compiler):
    undefined = compiled(tmp_path, compiler, "c", "-std=c11", "-ffreestanding", "-fno-builtin", "-fno-stack-protector")
    assert not undefined.split(), undefined


@pytest.mark.parametrize("compiler", COMPILERS)
def test_cxx(tmp_path, compiler):
    compiled(tmp_path, compiler, "cc", "-x", "c++", "-std=c++17")


def test_cuda(tmp_path):
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc here")
    for name in ("search", "gpu"):
        source = ROOT / f"bind/lean/examples/{name}.cu"
        nvcc = ["nvcc", "-arch=sm_90", "-std=c++17", "-cubin", f"-I{HEADERS}", "-o", tmp_path / f"{name}.cubin", source]
        subprocess.run(nvcc, check=True)
