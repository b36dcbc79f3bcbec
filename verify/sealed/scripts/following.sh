# tail -f by inotify, watchers, FIFOs, and readers that wait for writers.
set -u
exec 2>&1

echo first >log
: >seen
tail -n +1 -s 0.05 --pid=$$ -f log >seen &
tail=$!
until [ "$(wc -l <seen)" = 1 ]; do sleep 0.02; done
echo second >>log
printf third >>log
echo " goes on" >>log
until [ "$(wc -l <seen)" = 3 ]; do sleep 0.02; done
kill $tail
wait $tail
echo "tail: $?"
cat seen

tail -n +1 -s 0.05 -F rotated >seen 2>errors &
tail=$!
sleep 0.2
echo one >rotated
until grep -q one seen; do sleep 0.02; done
mv rotated old
echo two >rotated
until grep -q two seen; do sleep 0.02; done
kill $tail
wait $tail
echo "tail: $?"
cat seen
grep -c rotated errors >/dev/null && echo told

mkfifo fifo
(
    sleep 0.1
    echo through
) >fifo &
read -r line <fifo
echo "$line"
wait
cat fifo &
reader=$!
exec 3>fifo
echo a >&3
echo b >&3
exec 3>&-
wait $reader
echo "cat: $?"
(
    exec 4<>fifo
    echo both >&4
    read -r line <&4
    echo "$line"
)
timeout 0.2 cat fifo
echo "nobody writes: $?"
mkfifo other; timeout 0.2 sh -c "echo x >other"
echo "nobody reads: $?"
stat -c '%F %a' fifo | sed 's/ [0-7]*$//'
[ -p fifo ] && echo pipe
rm fifo
mkfifo in out
tr a-z A-Z <in >out &
{ echo lower >in; } &
read -r line <out
echo "$line"
wait
ls
