# Filters over files that do not fit into one buffer; sorting with temporary files.
set -u
exec 2>&1

seq 1 25000 | awk '{printf "%07d key%d line number %d\n", ($1 * 7919) % 25013, $1 % 97, $1}' >lines
wc lines
sha256sum lines
sort lines | sha256sum
sort -k2,2 -k1,1nr lines | sha256sum
sort -S 256k -T . lines | sha256sum
sort -S 512k --parallel=2 --compress-program=gzip lines | sha256sum
sort -o lines lines
sort -c lines && echo sorted
ls
cut -d' ' -f2 lines | sort | uniq -c | sort -rn | head -3
join -1 2 -2 1 <(head -50 lines | sort -k2) <(printf 'key1 one\nkey5 five\n' | sort) | head -5
paste -sd+ <(seq 100) | bc 2>/dev/null || echo no bc
tr a-z A-Z <lines | tail -1
rev lines | head -1
tac lines | head -2
nl lines | sed -n 777p
fold -w 9 lines | wc -l
expand -t 4 lines | md5sum
od -An -tx1 -N 24 lines
head -c 1000 lines | base64 | tail -1
tail -c +700000 lines | wc -c
tail -n 3 lines
head -n -24998 lines
shuf -i 1-9 | sort | tr -d '\n'
echo
sed -n '500,503p;$=' lines
sed -i 's/line/row/;3d' lines
wc -l lines
sed -i.bak '1,5s/^/> /' lines
head -2 lines
ls
grep -c 'key1[0-9] ' lines
grep -m 3 -n row lines
grep -F -x nothing lines
echo $?
grep -oE '[0-9]+$' lines | paste -sd+ | tr + '\n' | awk '{s+=$1} END {print s}'
awk '{count[$2]++} END {for (key in count) print key, count[key]}' lines | sort | sha256sum
awk 'NR % 6000 == 0 {print > ("part" int(NR / 6000)); close("part" int(NR / 6000)); system("wc -l < part" int(NR / 6000))}' lines
awk 'BEGIN {while (("ls part*" | getline name) > 0) print "has", name; "date -u -d @0 +%Y" | getline year; print year; print "to the shell" | "cat"; close("cat"); while ((getline line < "part2") > 0) n++; print n; exit 3}'
echo $?
gzip -k lines
gzip -l lines.gz | awk '{print $2, $4}'
zcat lines.gz | cmp - lines && rm lines.gz
bzip2 -k lines 2>/dev/null && bzcat lines.bz2 | cmp - lines && rm lines.bz2
xz -k -1 lines
xz -t lines.xz && xzcat lines.xz | sha256sum
gunzip missing.gz
echo $?
tee one two <part1 | cat - part2 | wc
cmp one two && echo same
yes | head -n 100000 | wc -c
seq 1 1000000 | head -n 1
printf '%s\n' a b c | xargs -I{} sh -c 'echo {}-$0' x
seq 20 | xargs -n 3 -P 2 echo | sort | head -3
seq 3 | xargs -n1 sh -c 'exit $0'
echo $?
echo missing | xargs cat
echo $?
timeout 0.2 sleep 5
echo $?
timeout -s KILL 0.2 sleep 5
echo $?
timeout 60 sh -c 'exit 9'
echo $?
date -u -d '2020-02-29 12:34:56' '+%s %j %U'
date -u -r part1 +%Y | grep -c 20
env -i A=1 env
nice -n 3 nice
nohup echo kept
id -u >/dev/null && echo id
tty </dev/null
uname -s
nproc >/dev/null && echo cores
expr 3 \* 4
factor 97 91
numfmt --to=iec 1234567
printf '%q\n' "a b'c"
test -r lines -a ! -x lines && echo readable
[ lines -nt part1 ] || echo older
[ one -ef two ] || echo apart
stdbuf -oL echo buffered
hostname >/dev/null
arch
getconf PAGESIZE
