"""Programs of ADIOS2's own API over Heliostat's engine: steps arrive as they were written."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

# The engine is compiled into a cache: not the user's.
os.environ["XDG_CACHE_HOME"] = os.environ["XDG_RUNTIME_DIR"]

adios2 = pytest.importorskip("adios2", reason="adios2 is not installed; pip install adios2")
if shutil.which("c++") is None:
    pytest.skip("no c++: the engine is compiled where it is used", allow_module_level=True)

import heliostat  # noqa: E402
import heliostat.adios2  # noqa: E402
from heliostat._adios2_calls import close, opener  # noqa: E402
from heliostat._adios2_steps import INDEX_BYTES, Attribute, Part, Step, decode  # noqa: E402

WRITER = """
import sys, numpy as np, adios2, heliostat.adios2
name, in_place = sys.argv[1], sys.argv[2] == "True"
io = adios2.Adios().declare_io("writer")
io.set_engine("Plugin")
io.set_parameters(heliostat.adios2.parameters(name, queue=12, in_place=in_place))
heat, count = np.zeros((64, 1024)), np.arange(10, dtype=np.int32)
with adios2.Stream(io, name, "w") as stream:
    stream.write_attribute("unit", "K")
    stream.write_attribute("extent", np.array([0.1, 0.7]))
    for _ in stream.steps(5):
        step = stream.current_step()
        heat[step], count[:] = step + 1, count + 1
        stream.write("heat", heat, heat.shape, [0, 0], heat.shape)
        stream.write("count", count, [10], [0], [10])
        stream.write("halves", np.full(3, step, np.float32), [6], [0], [3])
        stream.write("halves", np.full(3, -step, np.float32), [6], [3], [3])
        stream.write("step", step)
        stream.write("said", f"step {step}")
        if step % 2 and not in_place:
            stream.write("odd", np.ones(step, np.uint8), [step], [0], [step])
    print("written", flush=True)
    sys.stdin.readline()
"""

FAST = """
import sys, numpy as np, adios2, heliostat.adios2
io = adios2.Adios().declare_io("writer")
io.set_engine("Plugin")
io.set_parameters(heliostat.adios2.parameters(sys.argv[1], in_place=True))
one, two = np.zeros(1 << 18, np.int64), np.zeros(1 << 18, np.int64)
with adios2.Stream(io, "fast", "w") as stream:
    print("open", flush=True)
    for _ in stream.steps(300):
        step = stream.current_step()
        one[:], two[::512] = step, step
        stream.write("one", one, one.shape, [0], one.shape)
        stream.write("two", two, two.shape, [0], two.shape)
"""


def reading(name: str, **settings):
    """A stream that this process reads."""
    io = adios2.Adios().declare_io(f"reader of {name}")
    io.set_engine("Plugin")
    io.set_parameters(heliostat.adios2.parameters(name, **settings))
    return adios2.Stream(io, name, "r")


@pytest.mark.parametrize("in_place", [False, True])
def test_every_step_arrives_with_its_variables_as_they_were_written(name, other, in_place):
    writer = other(WRITER, name, in_place)
    assert writer.stdout.readline() == "written\n", writer.stderr.read()
    seen = []
    with reading(name, order="next") as stream:
        for _ in stream.steps():
            step = stream.current_step()
            seen.append(step)
            heat = np.zeros((64, 1024))
            heat[: step + 1] = np.arange(1, step + 2)[:, None]
            assert np.array_equal(stream.read("heat"), heat)
            assert np.array_equal(stream.read("heat", [step, 5], [2, 3]), heat[step : step + 2, 5:8])
            assert np.array_equal(stream.read("count"), np.arange(10) + step + 1)
            assert stream.read("count").dtype == np.int32
            assert stream.read("halves").tolist() == [step] * 3 + [-step] * 3
            assert (stream.read("step"), stream.read("said")) == (step, f"step {step}")
            sometimes = {"odd"} if step % 2 and not in_place else set()
            always = {"heat", "count", "halves", "step", "said"}
            assert set(stream.available_variables()) == always | sometimes
            assert not sometimes or stream.read("odd").shape == (step,)
            if step == 4:
                writer.stdin.write("end\n")
                writer.stdin.flush()
        assert stream.read_attribute("unit") == "K"
        assert stream.read_attribute("extent").tolist() == [0.1, 0.7]
    assert seen == [0, 1, 2, 3, 4]


def test_a_reader_slower_than_the_writer_sees_whole_steps_that_never_go_back(name, other):
    writer = other(FAST, name)
    assert writer.stdout.readline() == "open\n", writer.stderr.read()
    seen = []
    with reading(name) as stream:
        for _ in stream.steps():
            step = stream.current_step()
            one, two = stream.read("one"), stream.read("two")
            assert (one == step).all() and (two[::512] == step).all()
            seen.append(step)
    assert seen == sorted(set(seen)) and seen
    assert writer.wait(60) == 0


def test_the_stream_of_a_killed_writer_ends(name, other):
    writer = other(WRITER, name, False)
    assert writer.stdout.readline() == "written\n", writer.stderr.read()
    with reading(name) as stream:
        assert stream.begin_step() == adios2.StepStatus.OK
        stream.end_step()
        writer.kill()
        assert stream.begin_step() == adios2.StepStatus.OtherError


def test_a_step_that_does_not_come_is_not_ready(name):
    with reading(name) as stream:
        assert stream.begin_step(timeout=0.05) == adios2.StepStatus.NotReady


def test_a_variable_is_a_region_for_any_heliostat_program(name, other, tracks):
    writer = other(WRITER, name, False)
    assert writer.stdout.readline() == "written\n", writer.stderr.read()
    with heliostat.attach(f"{name}/heat.1").latest() as snapshot:
        assert snapshot.array().shape == (64, 1024)
        assert snapshot.array()[:6, 0].tolist() == [1, 2, 3, 4, 5, 0]
        # The fifth step wrote one row of 8 KiB; where nobody says so, all counts.
        assert snapshot.cost.dirty_bytes == (8192 if tracks else snapshot.array().nbytes)


def test_versions_of_a_plain_region_are_steps(name):
    field = np.arange(12, dtype=np.float32).reshape(3, 4)
    with heliostat.Region.from_array(field, name) as region:
        region.publish()
        with reading(name) as stream:
            assert stream.begin_step() == adios2.StepStatus.OK
            field[:] = 0
            assert stream.read("array").tolist() == np.arange(12).reshape(3, 4).tolist()
            stream.end_step()
            assert stream.begin_step(timeout=0.05) == adios2.StepStatus.NotReady
            region.publish()
            assert stream.begin_step() == adios2.StepStatus.OK
            assert not stream.read("array").any()
            stream.end_step()


def index_of(content: bytes) -> np.ndarray:
    index = np.zeros(INDEX_BYTES, np.uint8)
    index[: len(content)] = np.frombuffer(content, np.uint8)
    return index


def test_an_index_says_what_was_put_into_it():
    step = Step(7, True, {"a": Part("double", (3, 4), "s/a.1", 9)}, {"t": "text"})
    step.attributes = {"n": Attribute("int32_t", False, b"\1\0\0\0\2\0\0\0")}
    assert decode(index_of(step.encode())) == step


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 8,
        (2).to_bytes(8, "little") + b"{}",
        (3).to_bytes(8, "little") + b"[1]",
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
    ],
)
def test_an_index_of_nonsense_is_refused(content):
    with pytest.raises(ValueError):
        decode(index_of(content))


def test_the_late_end_of_a_closed_stream_does_not_close_the_next_one(name):
    open_stream = opener(heliostat.adios2._loaded[heliostat.adios2.library()])
    first = open_stream(0, 1, f"Region={name}/a".encode())
    close(first)
    second = open_stream(0, 1, f"Region={name}/b".encode())
    close(first)
    assert heliostat.attach(f"{name}/b/steps").is_closed is False
    close(second)
