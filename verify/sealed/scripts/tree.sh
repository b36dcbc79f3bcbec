# A tree of some thousand names: made, walked, listed, counted, summed, changed and removed.
set -u
exec 2>&1
umask 022

mkdir tree && cd tree || exit 1
for folder in {1..40}; do
    mkdir -p "d$folder/sub/deep"
    for file in {1..20}; do
        echo "file $folder $file" >"d$folder/f$file"
        printf '%0*d' $((file * 37)) 7 >"d$folder/sub/n $file"
    done
    ln -s "../d$folder/f1" "d$folder/link"
    ln "d$folder/f2" "d$folder/sub/deep/hard"
done
mkdir empty
: >void
ln -s nowhere dangling
ln -s . circle
mkfifo pipe

echo "-- find"
find . -printf '%y %m %s %n %p -> %l\n' | LC_ALL=C sort | sha256sum
find . -type f | wc -l
find . -type d | wc -l
find . -type l -name 'li*' | wc -l
touch -d @1000000000 old && touch -d @999999999 d3/f1 d4/f1
find . -name 'f1*' -newer old | wc -l
rm old
touch d3/f1 d4/f1
find d7 -size +300c | LC_ALL=C sort
find . -links 2 -type f | LC_ALL=C sort | head -3
find . -empty | LC_ALL=C sort | tail -5
find -L d3 -maxdepth 1 -samefile d3/f1 | LC_ALL=C sort
find d1 d2 -type f -exec cat {} + | sha256sum
find . -path '*deep*' -print0 | xargs -0 -n 7 echo | wc -l
echo "-- ls"
ls -lR --time-style=+ | grep -v ^total | sha256sum
ls -la --time-style=+ d5 | grep -v ^total
ls -1U empty
ls nothing
ls -lL --time-style=+ d5/link
ls -d */ | head -3
ls -F | tail -4
echo "-- du"
du -s --apparent-size -b d9
du -a --apparent-size -b d9/sub | LC_ALL=C sort | tail -3
du --inodes -s .
echo "-- sums"
sha256sum d1/* 2>&1 | tail -4
md5sum d2/f* | md5sum
cksum d3/f3
b2sum d4/f4
wc d1/f* | tail -1
sha256sum d1/f* >sums
sha256sum -c --quiet sums && echo same
echo x >>d1/f3
sha256sum -c --quiet sums
echo "-- grep"
grep -rc 'file 1[0-9]' d11 d12 | LC_ALL=C sort | head -4
grep -rl 'file 30 7$' .
grep -rn nothing d1
echo $?
grep -R '20 1' d20 | LC_ALL=C sort
echo "-- change"
chmod -R o-r,g+w d6 && stat -c '%A %n' d6 d6/f6 d6/sub
chmod -R a=rX d8
find d8 -printf '%m\n' | sort | uniq -c
touch -d '2001-02-03 04:05:06 UTC' d6/f6
stat -c '%Y %y %s %h %F' d6/f6
find . -not -newermt 2002-01-01 -type f
find d10 -name 'f1?' -delete
ls d10
find d13 -depth -name 'n *' -exec rename {} + 2>/dev/null
mv d14 d15 empty
ls empty
mv empty/d14 .
rm -r d16 d17
rm d18
rmdir d18
rm -rf missing
rm missing
rm -d empty
ls | wc -l
readlink -f d19/link circle/circle/d20/link
realpath --relative-to=d1 d2/f2
pwd
basename "$PWD"
tree 2>/dev/null | tail -1
cd .. && chmod -R u+w tree && rm -r tree && ls
