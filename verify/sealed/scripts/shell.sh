# bash itself: pipes, here-documents, substitutions, redirections, arrays, limits, status.
set -u
exec 2>&1

echo "-- pipes"
seq 100 | sort -rn | head -2
(exit 3) | true
echo "${PIPESTATUS[*]}"
set -o pipefail
false | true
echo $?
set +o pipefail
! true
echo $?
for i in {1..50}; do echo "$i"; done | while read -r x; do echo $((x * x)); done | tail -1
shopt -s lastpipe
set +m
echo last | read -r word
echo "$word"
seq 3 | tee >(cat >copied) | wc -l
sleep 0.05
cat copied
echo "-- here-documents"
cat <<X
expanded $((1 + 1)) $(echo sub)
X
cat <<'X'
not $expanded
X
cat <<-X
	without tabs
	X
cat <<<"string $((6 * 7))"
cat <<X | wc -c
$(head -c 200000 /dev/zero | tr '\0' y)
X
echo "-- substitution"
a=$(printf 'one\n\n\n')
echo "[$a]"
diff <(seq 3) <(seq 2 4)
echo >(true) <(true) | tr -d 0-9
read -r first second < <(echo left right)
echo "$second"
echo "$(<copied)"
wc -l <(seq 7) | cut -d' ' -f1
sort -m <(seq 1 2 9) <(seq 2 2 8) | tr -d '\n'
echo
echo "${a/n/N} ${#a} ${a:1:2} ${a^^} ${b:-default} ${!a*}"
mapfile -t rows < <(printf 'x y\nz\n')
echo "${#rows[@]} ${rows[0]}"
echo "-- redirections"
exec 3>out 4<copied
echo to3 >&3
read -r line <&4
echo "$line"
exec 5>&3 3>&-
echo to5 >&5
exec 5>&-
cat out
exec 6<>out
read -r l <&6
echo over >&6
exec 6>&-
cat out
{
    echo both
    echo err >&2
} &>all
cat all
echo x >|all
set -C
echo y >all
set +C
cat all
echo closed >&9
: <missing
echo $?
ls missing 2>/dev/null || echo gone
(
    echo in
    echo out >&2
) 2>&1 >/dev/null | cat
echo append >>all
cat <all -
echo >/dev/full
echo $?
exec 7</dev/null
cat <&7
exec 7<&-
printf 'a\0b' >zero
wc -c zero
: >empty
[ -s empty ] || echo empty
(echo dev >/dev/stdout) | cat
(echo fd >/dev/fd/1) | cat
echo tty >/dev/tty || echo no tty
echo fd | cat /dev/stdin
echo fd | cat /dev/fd/0
echo "-- status"
(exit 42)
echo $?
sh -c 'kill -TERM $$'
echo $?
sh -c 'kill -SEGV $$'
echo $?
nosuchcommand
echo $?
./zero
echo $?
/
echo $?
printf 'echo script "$@"\n' >s
chmod +x s
./s a b
printf '#!/bin/sh\nexit 7\n' >t
chmod +x t
./t
echo $?
printf '#!/no/interpreter\n' >u
chmod +x u
./u
echo $?
chmod -x t
./t
echo $?
sh ./t
echo $?
bash -c 'exit 300'
echo $?
(
    ulimit -c 0
    sh -c 'kill -ABRT $$'
)
echo $?
exec 8>&1
(exec sh -c 'echo exec $0' name >&8)
type -P sh | tr -d /
command -v nosuch
echo $?
hash -r
(exec nosuch)
echo $?
echo "-- limits"
(
    ulimit -n 20
    for i in {3..30}; do eval "exec $i</dev/null" 2>/dev/null || {
        echo "$((i > 15))"
        break
    }; done
)
(
    ulimit -f 1
    head -c 5000 /dev/zero >limited
    echo $?
    wc -c limited
)
ulimit -S -n 128
ulimit -n
(
    ulimit -v 60000
    bash -c ': $(head -c 90000000 /dev/zero | tr "\0" x)' 2>/dev/null
    echo $(($? > 0))
)
ulimit -H -n 200
ulimit -H -n
ulimit -n 300 2>/dev/null
echo $?
umask 077
: >private
stat -c %a private
umask
echo "-- variables"
export KEY=value
sh -c 'echo $KEY'
KEY=other sh -c 'echo $KEY'
echo $KEY
(cd / && pwd)
cd . && pwd | grep -c .
cd missing
pushd /usr >/dev/null
dirs -v | wc -l
popd >/dev/null
echo */ [c]* ?
shopt -s nullglob dotglob globstar
echo nothing*
: >.dot
echo .d*
printf '%s\n' ** | wc -l
echo $BASH_SUBSHELL $(echo $BASH_SUBSHELL)
[ $$ = $BASHPID ] && echo one
(echo $(($$ == BASHPID)))
[[ -e /proc/self/exe && -d /proc/$$/fd ]] && echo proc
time -p true 2>/dev/null
printf '%(%Y)T\n' 0
getopts ab: o -b arg
echo $o $OPTARG
select x in a; do
    echo $x
    break
done <<<1
declare -A m=([k]=v [l]=w)
echo ${#m[@]} ${m[k]}
printf -v v '%05.1f' 3.14159
echo $v
coproc cat
# The shell forgets the number when it hears of the end, which may be before the wait.
coproc=$COPROC_PID
echo "to coproc" >&${COPROC[1]}
read -r l <&${COPROC[0]}
echo $l
eval "exec ${COPROC[1]}>&-"
wait $coproc
echo $?
