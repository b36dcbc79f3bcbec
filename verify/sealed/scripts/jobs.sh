# Jobs, traps and signals as a shell sees them: statuses, stops, groups, orphans, waits.
set -u
exec 2>&1
trap 'echo left with $?' EXIT

for i in 1 2 3; do (exit $i) & done
wait
echo "all: $?"
(exit 5) &
wait $!
echo "one: $?"
(
    sleep 0.05
    exit 6
) &
fast=$!
sleep 2 &
slow=$!
wait -n $fast $slow
echo "first: $?"
kill $slow
wait $slow
echo "killed: $?"
sleep 30 &
sleeper=$!
kill -STOP $sleeper
until grep -q '^State:.T' /proc/$sleeper/status; do sleep 0.01; done
echo stopped
kill -CONT $sleeper
until grep -q '^State:.S' /proc/$sleeper/status; do sleep 0.01; done
echo continues
kill -INT $sleeper
kill -KILL $sleeper
wait $sleeper
echo "status: $?"
trap 'echo got usr1' USR1
kill -USR1 $$
(
    sleep 0.05
    kill -USR1 $$
) &
wait $!
echo "interrupted: $?"
wait
trap '' TERM
kill -TERM $$
echo survived
sh -c 'kill -TERM $PPID; echo child'
trap - TERM
trap 'echo hup' HUP
trap -p HUP USR1
kill -l 15 9 | tr '\n' ' '
jobs >/dev/null
set -m
sleep 40 &
job=$!
jobs >list
sed 's/ \+/ /g' list
kill -TSTP $job
until grep -q '^State:.T' /proc/$job/status; do sleep 0.01; done
jobs -s >list
wc -l <list
bg %+ >/dev/null
kill -- -$job
wait $job
echo "group: $?"
(
    sleep 50 &
    sleep 60
) &
group=$!
sleep 0.05
kill -TERM -- -$group
wait $group
echo "both: $?"
fg 2>&1 | head -1
# Long enough to be there still on a busy machine: bash loses count of a job that ends while it is fetched.
sleep 2 &
fg >/dev/null
echo "fg: $?"
set +m
(
    trap 'echo inner; exit 9' TERM
    while :; do sleep 0.02; done
) &
inner=$!
sleep 0.1
kill $inner
wait $inner
echo "trapped: $?"
kill -0 $inner || echo gone
kill -0 $$ && echo here
kill -BAD $$
kill 99999999
echo $?
sh -c 'sleep 0.1 & echo $! >orphan; exec true'
orphan=$(cat orphan)
kill -0 $orphan && echo "orphan lives"
until ! kill -0 $orphan 2>/dev/null; do sleep 0.02; done
echo "orphan ended"
setsid sh -c '[ $(ps -o sid= -p $$) = $$ ] && echo "own session"; echo $$ >daemon; exec sleep 30' &
until [ -s daemon ]; do sleep 0.01; done
sleep 0.05
daemon=$(cat daemon)
kill $daemon
wait
kill -0 $daemon 2>/dev/null || echo "daemon ended"
(nohup sh -c 'trap "" HUP; sleep 0.1; echo done >later' >/dev/null 2>&1 &)
until [ -s later ]; do sleep 0.02; done
cat later
perl -e '$SIG{ALRM} = sub { print "alarm\n"; exit 4 }; alarm 1; sleep 10'
echo $?
perl -e 'kill 11, $$; sleep 1'
echo $?
perl -e 'my $p = fork // die; if (!$p) { kill "STOP", $$; exit 3 } use POSIX ":sys_wait_h"; waitpid($p, WUNTRACED); print WIFSTOPPED(${^CHILD_STATUS_NATIVE}) ? "stopped\n" : "no\n"; kill "CONT", $p; waitpid($p, 0); print $? >> 8, "\n"'
perl -e 'pipe(R, W); if (!fork) { close R; $SIG{PIPE} = "DEFAULT"; sleep 1 while 0; close W; exit } close W; print defined(<R>) ? "data\n" : "end\n"; wait'
yes | head -1
echo "${PIPESTATUS[*]}"
(
    ulimit -t 1
    sh -c 'while :; do :; done'
)
echo "cpu: $?"
timeout --foreground -s INT 0.1 sleep 9
echo $?
timeout -k 0.1 0.1 sh -c 'trap "" TERM; sleep 9 & wait; wait'
echo $?
bash -i -c 'echo interactive' 2>/dev/null
bash -c 'trap "echo exit trap" EXIT; exec true'
bash -c 'trap "echo exit trap" EXIT; kill -TERM $$'
echo $?
bash -c 'trap "echo err" ERR; false; true'
bash -c 'disown; sleep 0.1 & disown; jobs | wc -l'
rm daemon orphan list
exit 11
