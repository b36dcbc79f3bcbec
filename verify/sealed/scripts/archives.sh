# tar with gzip and xz: created, listed, compared, extracted, updated.
set -u
exec 2>&1
umask 022

mkdir -p data/{x,y}/{1,2,3} && for i in {1..150}; do echo "entry $i of many" >"data/x/1/e$i"; done
head -c 2000000 /dev/zero >data/y/zeros
seq 1 50000 >data/y/2/numbers
ln -s ../x data/y/link
ln data/y/zeros data/y/3/hard
mkfifo data/fifo
chmod 600 data/x/1/e7
chmod 2755 data/x/2
printf x >"data/a name with blanks"
printf x >"data/$(printf 'n%.0s' {1..150})"
find data -exec touch -h -d @1500000000 {} +
list() { (cd "$1" && find . -printf '%y %m %s %n %T@ %p -> %l\n' | sed 's/\.0000000000//' | grep -v '^d .* \. ->' | LC_ALL=C sort); }
list data >before
sha256sum before

for kind in "" z J; do
    tar -c${kind}f "all$kind.tar" --sort=name --owner=0 --group=0 --numeric-owner data
    echo "create '$kind': $?"
    mkdir "out$kind"
    tar -x${kind}pf "all$kind.tar" -C "out$kind"
    echo "extract: $?"
    list "out$kind/data" | cmp - before && echo same
    tar -d${kind}f "all$kind.tar" -C "out$kind" 2>&1 | grep -v -i -E 'uid|gid' | head -5
    tar -t${kind}f "all$kind.tar" | sha256sum
done
sha256sum all.tar
tar -tvf all.tar data/x/1/e7 data/y/3 --full-time | sed 's/ \+/ /g'
echo changed >>out/data/x/1/e1
rm out/data/x/1/e2
tar -df all.tar -C out 2>&1 | grep -E 'e[12]:'
tar -xOf all.tar data/x/1/e9
tar -xf all.tar data/none
echo $?
tar -rf all.tar before
tar -tf all.tar | tail -1
tar --delete -f all.tar before
tar -tf all.tar | tail -1 | cut -c1-20
tar -cf - data | tar -xf - -C outz --strip-components=1 && ls outz | head -4
tar -cSf sparse.tar data/y/zeros
tar -xSf sparse.tar -O | wc -c
tar --exclude='e1*' -cf - data | tar -tf - | wc -l
tar -cf /dev/null missing
echo $?
tar -cf snap.tar -g snapshot data >/dev/null
# A change within the same tick of the clock would not be seen.
sleep 0.1
echo more >data/x/1/e1
tar -cf snap2.tar -g snapshot data
tar -tf snap2.tar | grep -c 'e[0-9]*$'
rm -rf out* data *.tar snapshot
ls
