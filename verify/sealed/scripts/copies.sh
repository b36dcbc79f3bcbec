# Copies, moves, links, installs, splits and comparisons.
set -u
exec 2>&1
umask 027

mkdir -p from/{a,b}/c
seq 1 5000 >from/a/numbers
head -c 300000 /dev/zero | tr '\0' x >from/b/big
echo '#!/bin/sh
echo runs' >from/a/run
chmod 751 from/a/run
touch -d @1100000000 from/a/run
ln -s ../a/numbers from/b/link
ln from/a/numbers from/b/c/hard
truncate -s 5M from/sparse
printf end | dd of=from/sparse bs=1 seek=4000000 conv=notrunc status=none
touch -d @1000000000 from/a/numbers
touch -h -d @900000000 from/b/link
show() { find "$@" -printf '%y %m %s %n %T@ %p -> %l\n' | sed 's/\.0000000000//' | LC_ALL=C sort; }

echo "-- cp"
cp -a from copy && diff -r --no-dereference from copy && show copy | grep -v ' d ' | grep -E 'numbers|hard|link|run'
cp -r from plain
stat -c '%a %s %n' plain/a/run plain/b/link
cp from/a from/b nowhere
cp from/a/numbers from/a/run copy
ls copy
cp -n from/a/run copy/run
cp -u from/a/numbers copy/numbers
cp --backup=numbered from/a/run copy/run
ls copy
cp -l from/a/run linked
stat -c %h linked
cp -s "$PWD/from/a/run" soft
cp -P soft soft2
readlink soft2 | sed "s|$PWD||"
cp --sparse=always from/sparse copy/sparse
cmp from/sparse copy/sparse && echo equal
cp --parents from/a/run copy
find copy/from
cp from/a/run from/a/run
cp from copy/numbers
cp --remove-destination from/a/run copy/run
cp --preserve=timestamps from/a/numbers t
stat -c %Y t
echo "-- mv"
mv copy moved
mv moved/a moved/b/c
mv -n t linked
mv -b t linked
ls
mv moved/b/c/a/run moved/ran && moved/ran
mv moved moved/b
mv -T moved there
show there | cut -d' ' -f1-4,6- | head -20
echo "-- ln"
ln -s target l1
ln -sf other l1
readlink l1
ln from/a/run l1
ln -f from/a/run l1
stat -c '%h %F' l1
ln from dir
ln -sn from dir
ln -sr from/a/run rel
readlink rel
readlink from
link from/a/run l2
unlink l2
unlink l2
echo "-- install"
install -m 640 from/a/numbers i1
install -d -m 711 x/y/z
install -D -m 755 from/a/run x/new/run
stat -c '%a %n' i1 x x/y/z x/new/run
x/new/run
echo "-- split"
split -b 100000 from/b/big part.
ls -l --time-style=+ part.* | cut -d' ' -f1,5-
cat part.* | cmp - from/b/big && echo joined
split -n l/3 -d from/a/numbers n.
wc -l n.*
csplit -s from/a/numbers 1000 '{2}'
wc -l xx*
echo "-- dd"
dd if=from/a/numbers of=d bs=100 count=3 skip=2 status=none
cat d | tail -c 20
echo
dd if=from/b/big of=d bs=1k seek=1 count=1 conv=notrunc 2>&1 | head -2
wc -c d
dd if=d of=e oflag=append conv=notrunc bs=4k 2>&1 | head -2
dd if=/dev/zero of=z bs=64k count=16 conv=fsync status=none
wc -c z
dd if=missing of=z
echo "-- truncate"
truncate -s 10 d
wc -c <d
truncate -s +5 d
od -c d | tail -2
truncate -s %4096 d
stat -c '%s' d
truncate -r from/b/big d
wc -c <d
truncate -s 1 from
fallocate -l 8192 f
stat -c '%s %b' f
fallocate -p -o 0 -l 4096 f
stat -c %s f
shred -n 1 -u f
ls f
echo "-- mktemp"
m=$(mktemp)
stat -c '%a %s' "$m"
mktemp -d -p . kXXXXX | wc -c
mktemp -u -p none/none | wc -c
mktemp -p none zXXXX | wc -c
rm "$m"
echo "-- sync"
sync -f d
sync d
sync
echo $?
echo "-- compare"
cmp from/a/numbers from/a/run
diff from/a/run <(echo '#!/bin/sh')
comm -12 <(seq 1 9 | sort) <(seq 5 12 | sort) | tr '\n' ' '
rm -rf k?????
rm -r from there plain x
ls -A
