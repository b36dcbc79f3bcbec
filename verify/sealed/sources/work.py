"""Python's own way of doing files, processes and threads; prints what it saw, no times and no numbers."""

import concurrent.futures, ctypes, fcntl, glob, gzip, hashlib, json, mmap, multiprocessing, os, pathlib, pickle, pty, select, selectors, shelve, shutil, signal, socket, sqlite3, stat, subprocess, sys, tempfile, threading, time, zipfile


def square(x):
    return x * x


def files():
    base = pathlib.Path("base")
    (base / "a/b").mkdir(parents=True)
    for i in range(200):
        (base / f"a/f{i}").write_text(f"number {i}\n" * i)
    print(len(list(base.rglob("f1*"))), sum(p.stat().st_size for p in base.rglob("*") if p.is_file()))
    shutil.copytree(base, "copy")
    shutil.make_archive("made", "zip", "copy")
    print(len(zipfile.ZipFile("made.zip").namelist()))
    shutil.rmtree("copy")
    with os.scandir("base/a") as entries:
        print(sorted((e.name, e.is_dir()) for e in entries)[:3])
    with open("m", "w+b") as f:
        f.truncate(1 << 16)
        m = mmap.mmap(f.fileno(), 0)
        m[100:105] = b"hello"
        m.flush()
        f.seek(100)
        print(f.read(5))
        m.resize(1 << 17)
        print(len(m), os.fstat(f.fileno()).st_size)
        m.close()
    fd = os.open("m", os.O_RDWR)
    print(
        os.pread(fd, 5, 100),
        os.pwritev(fd, [b"ab", b"cd"], 7),
        os.preadv(fd, [bytearray(3)], 7),
        os.lseek(fd, 0, os.SEEK_END),
    )
    os.posix_fallocate(fd, 0, 200000)
    print(os.fstat(fd).st_size)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    os.close(fd)
    os.setxattr("m", "user.key", b"value")
    print(os.listxattr("m"), os.getxattr("m", "user.key"))
    print(
        stat.filemode(os.lstat("m").st_mode),
        os.access("m", os.W_OK),
        os.access("m", os.X_OK),
        os.path.samefile("m", "./m"),
    )


def places():
    d = os.open("base", os.O_RDONLY | os.O_DIRECTORY)
    print(os.stat("a/f7", dir_fd=d).st_size, len(os.listdir(d)))
    os.mkdir("x", dir_fd=d)
    os.rename("x", "y", src_dir_fd=d, dst_dir_fd=d)
    os.symlink("a", "s", dir_fd=d)
    print(os.readlink("s", dir_fd=d))
    os.rmdir("y", dir_fd=d)
    os.close(d)
    with tempfile.TemporaryFile() as t, tempfile.NamedTemporaryFile() as n, tempfile.TemporaryDirectory() as td:
        t.write(b"x" * 99999)
        t.seek(0)
        print(len(t.read()), os.path.exists(n.name), os.listdir(td))
    with shelve.open("shelf") as s:
        s["k"] = [1, 2]
    with shelve.open("shelf") as s:
        print(s["k"])
    with gzip.open("z.gz", "wb") as z:
        z.write(b"z" * 100000)
    print(hashlib.file_digest(gzip.open("z.gz"), "sha256").hexdigest()[:9])
    c = sqlite3.connect("s.db")
    c.execute("create table t(a)")
    c.executemany("insert into t values(?)", [(i,) for i in range(500)])
    c.commit()
    print(*c.execute("select sum(a) from t"))
    c.close()
    print(sorted(glob.glob("*.*")))
    print(
        os.statvfs(".").f_namemax,
        shutil.disk_usage(".").total > 0,
        os.sendfile(os.open("z.out", os.O_WRONLY | os.O_CREAT), os.open("m", os.O_RDONLY), 0, 50),
        os.copy_file_range(os.open("m", os.O_RDONLY), os.open("z.out", os.O_WRONLY), 20),
    )
    for call in (
        lambda: open("none/x"),
        lambda: os.mkdir("base"),
        lambda: os.rmdir("base"),
        lambda: os.unlink("base"),
        lambda: os.open("m", os.O_DIRECTORY),
        lambda: os.readlink("m"),
        lambda: os.rename("m", "base"),
        lambda: os.listdir("m"),
        lambda: os.open("x" * 300, 0),
        lambda: os.link("base", "l"),
    ):
        try:
            print(call())
        except OSError as error:
            print(error)


def processes():
    print(subprocess.run(["sh", "-c", "cat; exit 3"], input=b"in", capture_output=True))
    p = subprocess.Popen(["sleep", "30"], start_new_session=True)
    p.terminate()
    print(p.wait())
    print(
        subprocess.check_output("echo $0 | tr a-z A-Z", shell=True), os.system("exit 5"), os.popen("echo popen").read()
    )
    try:
        subprocess.run(["nosuch"])
    except FileNotFoundError as error:
        print(error)
    try:
        subprocess.run(["sleep", "9"], timeout=0.1)
    except subprocess.TimeoutExpired:
        print("timed out")
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(square, range(100))))
    q = multiprocessing.get_context("spawn").SimpleQueue()
    p = multiprocessing.get_context("spawn").Process(target=q.put, args=("spawned",))
    p.start()
    print(q.get())
    p.join()
    print(p.exitcode)
    a, b = multiprocessing.Pipe()
    a.send({"k": 1})
    print(b.recv())
    v = multiprocessing.Value("i", 0)
    ps = [multiprocessing.Process(target=add, args=(v,)) for _ in range(3)]
    [p.start() for p in ps]
    [p.join() for p in ps]
    print(v.value)
    m = (
        multiprocessing.shared_memory.SharedMemory(create=True, size=99)
        if hasattr(multiprocessing, "shared_memory")
        else None
    )
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 6"], os.environ)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    pid, fd = pty.fork()
    if not pid:
        os.execvp("tty", ["tty"])
    out = b""
    try:
        while part := os.read(fd, 99):
            out += part
    except OSError:
        pass
    print(out.startswith(b"/dev/pts/"), os.waitpid(pid, 0)[1])
    r, w = os.pipe()
    fl = fcntl.fcntl(w, fcntl.F_GETPIPE_SZ)
    print(fl, os.write(w, b"x" * 99), os.read(r, 999) == b"x" * 99)
    s = selectors.DefaultSelector()
    l, k = socket.socketpair()
    s.register(l, selectors.EVENT_READ)
    k.send(b"!")
    print(len(s.select(5)), l.recv(9))
    with open("passed", "w+") as f:
        f.write("through a message")
        f.flush()
        socket.send_fds(k, [b"fds"], [f.fileno(), r])
    message, (passed, pipe), _, _ = socket.recv_fds(l, 9, 2)
    os.write(w, b"piped")
    print(message, os.lseek(passed, 0, os.SEEK_CUR), os.pread(passed, 99, 8), os.read(pipe, 9))
    signal.signal(signal.SIGUSR1, lambda *_: print("signal"))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
    time.sleep(0.2)
    print(os.sched_getaffinity(0) != set(), os.getpriority(os.PRIO_PROCESS, 0), os.getpgid(0) > 0)


def add(v):
    for _ in range(500):
        with v.get_lock():
            v.value += 1


def threads():
    with concurrent.futures.ThreadPoolExecutor(16) as e:
        print(sum(e.map(one_file, range(200))))
    lock, done = threading.Condition(), []

    def wait():
        with lock:
            lock.wait_for(lambda: done, 10)
        done.append(1)

    t = [threading.Thread(target=wait) for _ in range(20)]
    [x.start() for x in t]
    with lock:
        done.append(0)
        lock.notify_all()
    [x.join() for x in t]
    print(len(done))
    print(ctypes.CDLL(None).getpid() == os.getpid())


def one_file(i):
    path = f"t{i % 16}.{i}"
    open(path, "w").write("x" * i)
    n = os.path.getsize(path)
    os.remove(path)
    return n


if __name__ == "__main__":
    files()
    places()
    processes()
    threads()
