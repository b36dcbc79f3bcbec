"""Functions that one process serves and another calls."""

from __future__ import annotations

import os
import signal
import threading
import time

import heliostat
import pytest
from test_processes import in_child

SERVE = """
import sys, heliostat
service = heliostat.rpc.open().serve(sys.argv[1], request_bytes=1 << 20, reply_bytes=1 << 20)
print("serves", flush=True)
for call in service:
    call.reply(call.payload[::-1])
"""

RUN = """
import os, sys, time, heliostat
service = heliostat.rpc.open().serve(sys.argv[1], request_bytes=64, reply_bytes=32)

def answer(call):
    word = call.payload.decode()
    if word == "who":
        return f"{call.user} {call.process}".encode()
    if word == "refuse":
        raise heliostat.Failed("no, " * 20)
    if word == "break":
        raise KeyError("a secret")
    if word == "long":
        return bytes(33)
    if word == "text":
        return "no bytes"
    if word == "sleep":
        time.sleep(60)
    return memoryview(call.payload).cast("B")

print("serves", flush=True)
service.run(answer)
"""

CALL = """
import sys, heliostat
function = heliostat.rpc.open().find(sys.argv[1], timeout=60)
for number in range(int(sys.argv[2])):
    payload = f"{sys.argv[3]} {number}".encode()
    assert function.call(payload, timeout=60) == payload[::-1]
"""

OUTLIVE = """
import os, signal, sys, threading
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
os.environ["HELIOSTAT_SOCKET"] = sys.argv[1] + "/control.sock"
import heliostat, heliostat._binaries
rpc, told = heliostat.rpc.open(), []
service, function = rpc.serve("kept"), rpc.find("kept")
pid, received = heliostat.status()["pid"], []

def serve():
    try:
        received.append(service.receive())
        os.kill(pid, signal.SIGKILL)
        service.receive()
    except heliostat.NoControlPlane as error:
        told.append(type(error).__name__)

thread = threading.Thread(target=serve)
thread.start()
try:
    function.call(b"")
except heliostat.Unanswered as error:
    print(isinstance(error, heliostat.NoControlPlane), error.may_have_run)
thread.join()
print(*told)
service = None
while service is None:
    try:
        again = heliostat.rpc.open()
        service = again.serve("kept")
    except heliostat.NoControlPlane:
        pass  # the one that was killed had a connection still waiting
with service, again.find("kept") as function:
    pending = function.begin(b"fresh")
    service.receive().reply(b"reply")
    print(pending.wait())
heliostat._binaries.ask(["stop"])
"""


@pytest.fixture(scope="module")
def rpc():
    return heliostat.rpc.open()


def serving(other, text, name):
    process = other(text, name)
    assert process.stdout.readline() == "serves\n", process.stderr.read()
    return process


def answering(service, *answers):
    """A thread that takes so many calls and answers them."""

    def work():
        for answer in answers:
            answer(service.receive(60))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_calls_of_any_length_are_answered_by_another_process(rpc, name, other):
    process = serving(other, SERVE, name)
    with rpc.find(name) as function:
        assert (function.request_bytes, function.reply_bytes) == (1 << 20, 1 << 20)
        for payload in (b"", b"abc", bytes(range(256)) * 256, bytearray(b"xy" * 500_000), os.urandom(1 << 20)):
            assert function.call(payload, timeout=60) == bytes(payload)[::-1]
        (listed,) = rpc.list(name)
        assert (listed.name, listed.user, listed.servers, listed.callers) == (name, os.getuid(), 1, 1)
        with pytest.raises(heliostat.TooLong) as caught:
            function.call(bytes((1 << 20) + 1))
        assert isinstance(caught.value, ValueError) and not caught.value.may_have_run
        with pytest.raises(TypeError):
            function.call("text")
    with pytest.raises(ValueError):
        function.call(b"")
    process.kill()


def test_processes_call_what_processes_and_threads_serve(rpc, name, other):
    for _ in range(2):
        serving(other, SERVE, name)
    clients = [other(CALL, name, 300, number) for number in range(3)]
    function, wrong = rpc.find(name), []

    def call(mark):
        for number in range(200):
            payload = b"%d %d" % (mark, number)
            if function.call(payload, timeout=60) != payload[::-1]:
                wrong.append(payload)

    threads = [threading.Thread(target=call, args=[mark]) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    for client in clients:
        assert client.wait(60) == 0, client.stderr.read()


def test_a_server_that_runs_says_no_and_goes_on(rpc, name, other):
    process = serving(other, RUN, name)
    function = rpc.find(name)
    assert function.call(b"who", timeout=60).decode() == f"{os.getuid()} {os.getpid()}"
    told = {b"refuse": "no, " * 8, b"break": "the server raised KeyError", b"long": "a reply of 33 bytes is too long"}
    told[b"text"] = "the server raised TypeError"
    for payload, text in told.items():
        with pytest.raises(heliostat.Failed) as caught:
            function.call(payload, timeout=60)
        assert str(caught.value) == text[:32] and caught.value.may_have_run
    assert function.call(b"well", timeout=60) == b"well"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    said = process.stderr.read()
    assert "KeyError: 'a secret'" in said and "KeyboardInterrupt" in said


def test_what_was_not_delivered_did_not_run(rpc, name):
    service = rpc.serve(name, queue=1)
    function = rpc.find(name)
    with pytest.raises(heliostat.NotDelivered) as caught:
        function.call(b"", timeout=0.05)
    assert isinstance(caught.value, TimeoutError) and not caught.value.may_have_run
    function.send(b"first", timeout=0)
    with pytest.raises(heliostat.NotDelivered) as caught:
        function.send(b"second", timeout=0)
    assert isinstance(caught.value, heliostat.Full)
    with pytest.raises(heliostat.TimedOut):
        function.send(b"second", timeout=0.7)
    message = service.receive()
    assert message.is_one_way and message.payload == b"first" and message.reply(b"")
    assert service.receive(timeout=0) is None
    service.close()
    for call in (function.call, function.send):
        with pytest.raises(heliostat.NotDelivered) as caught:
            call(b"")
        assert isinstance(caught.value, heliostat.Gone) and not caught.value.may_have_run
    with pytest.raises(heliostat.NotFound):
        rpc.find(name)
    with pytest.raises(ValueError):
        service.receive()


def test_who_is_killed_or_late_may_have_run_it(rpc, name, other):
    process = serving(other, RUN, name)
    function = rpc.find(name)
    threading.Timer(0.3, process.kill).start()
    with pytest.raises(heliostat.Unanswered) as caught:
        function.call(b"sleep", timeout=60)
    assert isinstance(caught.value, ConnectionError) and caught.value.may_have_run
    service, late = rpc.serve(name), []
    thread = answering(service, late.append)
    with pytest.raises(heliostat.Unanswered) as caught:
        function.call(b"", timeout=0.5)
    assert isinstance(caught.value, TimeoutError) and caught.value.may_have_run
    thread.join(60)
    (call,) = late
    # Counted from when it was received, which is a moment later.
    while call.left:
        time.sleep(0.01)
    assert call.left == 0 and not call.is_answered
    assert call.reply(b"late") is False and call.is_answered
    with pytest.raises(ValueError):
        call.reply()


def test_the_next_server_of_the_name_is_found_by_itself(rpc, name, other):
    first = serving(other, SERVE, name)
    function = rpc.find(name)
    assert function.call(b"ab", timeout=60) == b"ba"
    first.kill()
    first.wait()
    while rpc.list(name):
        time.sleep(0.01)
    serving(other, SERVE, name)
    assert function.call(b"ab", timeout=60) == b"ba"


def test_calls_go_on_while_their_caller_does_something_else(rpc, name):
    with rpc.serve(name, reply_bytes=8) as service:
        function = rpc.find(name)
        calls = [function.begin(b"%d" % number, timeout=60) for number in range(3)]
        # What one process asks at once comes in any order.
        acts = {b"0": lambda call: call.reply(b"one"), b"1": lambda call: call.fail("two"), b"2": lambda _: None}
        answering(service, *[lambda call: acts[call.payload](call)] * 3).join(60)
        told = []
        for call in calls:
            try:
                told.append(call.wait())
            except heliostat.Failed as error:
                told.append(str(error))
        assert told == [b"one", "two", "the serv"]
        with pytest.raises(ValueError):
            calls[0].wait()
        given_up = function.begin(b"", timeout=60)
        with pytest.raises(heliostat.NotDelivered) as caught:
            given_up.cancel()
        assert isinstance(caught.value, heliostat.Cancelled)
        del given_up
        forgotten = function.begin(b"forgotten")
        del forgotten
        assert service.receive(timeout=0.1) is None


def test_many_are_called_at_once(rpc, name, other):
    for number in range(2):
        serving(other, SERVE, f"{name}/{number}")
    functions = [rpc.find(f"{name}/{number}") for number in range(2)]
    service = rpc.serve(f"{name}/none")
    functions.append(rpc.find(f"{name}/none"))
    service.close()
    replies = heliostat.rpc.multicast(functions, b"ab", timeout=60)
    assert replies[:2] == [b"ba", b"ba"] and isinstance(replies[2], heliostat.NotDelivered)


def test_other_threads_run_while_one_waits_and_a_signal_cancels_its_call(rpc, name):
    service, function, counted = rpc.serve(name), rpc.find(name), []
    received: list[heliostat.rpc.Call] = []
    thread = answering(service, received.append)

    def count():
        for _ in range(5):
            counted.append(1)
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=count).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        function.call(b"")
    assert len(counted) == 5
    (note,) = caught.value.__notes__
    assert note == "the call may have had an effect: it was cancelled before the server answered"
    thread.join(60)
    assert received[0].reply() is False


def test_a_loop_ends_when_another_thread_closes_its_service(rpc, name):
    service, function, answered = rpc.serve(name), rpc.find(name), []

    def loop():
        for call in service:
            call.reply(call.payload)
        answered.append("ended")

    def run():
        service.run(lambda call: call.payload)
        answered.append("ended")

    threads = [threading.Thread(target=work) for work in (loop, run)]
    for thread in threads:
        thread.start()
    for number in range(50):
        assert function.call(b"%d" % number, timeout=60) == b"%d" % number
    service.close()
    for thread in threads:
        thread.join(60)
    assert answered == ["ended"] * 2


def test_a_forked_child_has_nothing_of_its_parent(rpc, name):
    service, function = rpc.serve(name), rpc.find(name)
    pending = function.begin(b"ab", timeout=60)
    call = service.receive(60)

    def child():
        uses = (call.reply, pending.wait, rpc.list, lambda: service.receive(0), lambda: function.call(b""))
        for use in uses:
            with pytest.raises(heliostat.Forked):
                use()
        assert heliostat.rpc.open().list(name)[0].servers == 1

    in_child(child)
    assert call.reply(b"ba") and pending.wait() == b"ba"


def test_names_are_checked(rpc):
    for act in (rpc.find, rpc.serve):
        with pytest.raises(heliostat.InvalidName):
            act("a//b")
    with pytest.raises(ValueError):
        rpc.serve("waits").receive(timeout=-1)


def test_the_end_of_the_control_plane_is_told_to_both_sides(tmp_path, other):
    ended = other(OUTLIVE, tmp_path)
    out, err = ended.communicate(timeout=100)
    assert (err, ended.returncode) == ("", 0)
    assert out.splitlines() == ["True True", "UnansweredControlGone", "b'reply'"]
