"""`make install` into any prefix: programs that find their parts, pages, completions, the C interface."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "packaging/install.sh"


def install(action: str, prefix: Path, **more: str) -> str:
    surroundings = {**os.environ, "PREFIX": str(prefix), **more}
    done = subprocess.run([INSTALL, action], env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """A tree that was installed at one place and moved to another."""
    folder = tmp_path_factory.mktemp("install")
    install("install", folder / "first")
    shutil.move(folder / "first", folder / "moved")
    return folder / "moved"


def told(*words: object, **more: str) -> str:
    done = subprocess.run([str(word) for word in words], env={**os.environ, **more}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_of_a_moved_tree_load_the_stub_beside_them(prefix, tmp_path):
    clean = {"HELIOSTAT_STUB": "", "HELIOSTAT_SOCKET": str(tmp_path / "control.sock"), "XDG_CACHE_HOME": str(tmp_path)}
    maps = told(prefix / "bin/heliostat", "run", "--require", "--", "cat", "/proc/self/maps", **clean)
    told(prefix / "bin/heliostat", "stop", **clean)
    assert str(prefix / "lib/heliostat/libheliostat_posix.so") in maps


def test_uninstall_leaves_no_file_and_a_changed_configuration(tmp_path):
    install("install", tmp_path)
    config = tmp_path / "etc/heliostat/heliostat.toml"
    config.write_text("[log]\nlevel = \"warn\"\n")
    assert str(config) in install("uninstall", tmp_path)
    assert files_below(tmp_path) == [config]


def test_uninstall_of_what_was_not_changed_leaves_nothing(tmp_path):
    install("install", tmp_path)
    install("uninstall", tmp_path)
    assert files_below(tmp_path) == []


def test_changed_configuration_is_kept_when_installed_again(tmp_path):
    install("install", tmp_path)
    config = tmp_path / "etc/heliostat/heliostat.toml"
    config.write_text("# mine\n")
    install("install", tmp_path)
    assert config.read_text() == "# mine\n"
    assert config.with_name("heliostat.toml.new").read_text() == (ROOT / "packaging/heliostat.toml").read_text()


def test_units_name_the_installed_program_and_configuration(tmp_path):
    install("install", Path("/opt/x"), DESTDIR=str(tmp_path))
    unit = (tmp_path / "opt/x/lib/systemd/system/heliostatd.service").read_text()
    assert "ExecStart=/opt/x/bin/heliostatd --foreground --config /opt/x/etc/heliostat/heliostat.toml" in unit
    assert (tmp_path / "opt/x/bin/heliostatd").is_file()
    assert (tmp_path / "opt/x/etc/heliostat/heliostat.toml").is_file()


def test_every_command_that_help_shows_has_a_man_page(prefix):
    shown = told(prefix / "bin/heliostat", "--help")
    commands = re.findall(r"^  ([a-z]+) ", shown.split("Commands:")[1].split("Options:")[0], re.MULTILINE)
    assert "run" in commands
    pages = {path.name for path in (prefix / "share/man/man1").iterdir()}
    assert {f"heliostat-{name}.1" for name in commands if name != "help"} <= pages


def test_page_of_the_daemon_names_each_of_its_options(prefix):
    page = re.sub(r"\\f[BIR]|\\", "", (prefix / "share/man/man8/heliostatd.8").read_text())
    options = set(re.findall(r"--[a-z-]+", told(prefix / "bin/heliostatd", "--help")))
    assert options and options == set(re.findall(r"--[a-z][a-z-]*", page)) - {"--now"}


def test_bash_completes_commands_and_options(prefix):
    script = prefix / "share/bash-completion/completions/heliostat"
    ask = f"source {script}; COMP_WORDS=(heliostat run --seal); COMP_CWORD=2; _heliostat heliostat --seal run; echo ${{COMPREPLY[@]}}"
    assert told("bash", "-c", ask).split() == ["--sealed"]


def test_c_program_is_built_and_linked_by_pkg_config(prefix, tmp_path):
    # The tree was moved since; its description is of the place where it was installed.
    install("install", tmp_path / "tree")
    flags = told("pkg-config", "--cflags", "--libs", "heliostat", PKG_CONFIG_PATH=str(tmp_path / "tree/lib/pkgconfig")).split()
    program = tmp_path / "ring"
    told("gcc", "-o", program, ROOT / "bind/c/examples/ring.c", *flags, "-pthread")
    assert "libheliostat_c.so" in told("ldd", program, LD_LIBRARY_PATH=str(tmp_path / "tree/lib"))
    told(program, LD_LIBRARY_PATH=str(tmp_path / "tree/lib"))
