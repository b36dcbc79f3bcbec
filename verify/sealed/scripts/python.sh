# Python's own way of doing files, processes, threads, archives, maps, sockets between kin.
# Its semaphores and shared memory lie in /dev/shm.
# grant: /dev/shm:rw
# Its terminals are made here.
# grant: /dev/ptmx:rw
# grant: /dev/pts:rw
set -u
exec 2>&1

python3 "$SOURCES/work.py"
echo "python: $?"
python3 -m compileall -q .
echo $?
python3 -X dev -c 'print("dev")'
python3 -m json.tool <<<'{"a": 1}'
python3 -c 'import os; os.abort()'
echo $?
python3 -c 'raise SystemExit("message")'
echo $?
echo 'print(input())' >i.py
echo typed | python3 i.py
rm -rf base __pycache__ made.zip shelf.db z.gz
ls
