# perl, awk, ed, vim and sed editing files in place, with locks, pipes, folders and children.
# ed keeps its buffer in /tmp.
# grant: /tmp:rw
set -u
exec 2>&1

perl -e '
use strict; use warnings; use Fcntl qw(:flock :seek :DEFAULT); use File::Temp; use File::Find; use File::Copy; use File::Path; use Cwd; use IO::Handle; use Socket; use POSIX;
mkpath("p/q/r"); open my $f, "+>", "p/data" or die; print $f "line $_\n" for 1 .. 2000; seek $f, 0, SEEK_SET; my @l = <$f>; print scalar @l, "\n"; truncate $f, 100; print -s "p/data", "\n"; flock $f, LOCK_EX or die;
my $pid = fork; if (!$pid) { open my $g, "<", "p/data"; print flock($g, LOCK_EX | LOCK_NB) ? "locked\n" : "busy\n"; STDOUT->flush; POSIX::_exit(0) } waitpid $pid, 0; close $f;
copy("p/data", "p/copied"); move("p/copied", "p/q/moved"); symlink "data", "p/soft"; link "p/data", "p/hard"; utime 1, 2, "p/data"; chmod 0604, "p/data"; my @s = stat "p/data"; printf "%o %d %d %d\n", $s[2], $s[3], $s[7], $s[9]; print readlink "p/soft", "\n";
find({ wanted => sub { print "$File::Find::name\n" }, preprocess => sub { sort @_ }, no_chdir => 1 }, "p"); chdir "p/q"; print cwd() =~ m{p/q$} ? "in\n" : "out\n"; chdir "../..";
open my $p, "|-", "cat" or die; print $p "through\n"; close $p; print qx(echo quoted), system("exit 3") >> 8, "\n"; socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC; syswrite $a, "pair"; sysread $b, my $t, 9; print "$t\n";
my $tmp = File::Temp->new(DIR => "p"); print $tmp "x"; print -e $tmp->filename ? "temporary\n" : "none\n"; opendir my $d, "p"; print join(" ", sort grep !/^\.|^\w{10}$/, readdir $d), "\n"; sysopen(my $x, "p/data", O_CREAT | O_EXCL) or print "$!\n"; rename "p/none", "p/x" or print "$!\n"; rmdir "p" or print "$!\n"; open $x, "<", "p/none/x" or print "$!\n"; open $x, ">", "p" or print "$!\n"; rmtree("p"); print -e "p" ? "there\n" : "removed\n"; print join(" ", (POSIX::uname())[0]), "\n"; select undef, undef, undef, 0.01; my ($r, $w) = POSIX::pipe(); POSIX::write($w, "abc", 3); POSIX::read($r, my $u, 9); print "$u\n"; print "times\n" if times; local $| = 1; printf "%s\n", join ",", map { $_ * 2 } grep { $_ % 2 } 1 .. 9;'
seq 5 >n
perl -i.bak -pe 's/3/three/' n
cat n n.bak | tr '\n' ' '
perl -ne 'print if eof' n n.bak
perl -MFile::stat -e 'print stat("n")->size, "\n"'
perl -MSys::Hostname -e 'print hostname() ? "named\n" : ""'
perl -MTime::HiRes=sleep -e 'sleep 0.01; print "slept\n"'
printf 'one\ntwo\nthree\n' >text
printf '2d\n1a\ninserted\n.\n,s/e/E/g\nw\nq\n' | ed -s text
cat text
printf 'H\nr missing\nw out\n!echo from ed\nq\n' | ed text
cat out
sed -i -e '$a last' -e '1i first' text
cat text
sed -n 'w copy' text
cmp text copy && echo equal
vi -es -u NONE -N -i NONE -c 'set nocp' -c '%s/E/x/g' -c 'normal Goappended' -c 'w! edited' -c 'r !echo shell' -c 'w' -c 'qa!' text </dev/null
echo "vi: $?"
cat text edited 2>/dev/null
ls -A
awk 'BEGIN { print ENVIRON["HOME"] != ""; srand(1); "pwd" | getline d; print d != ""; print length(sprintf("%1000s", "")); while ((getline l < "/proc/self/status") > 0) if (l ~ /^Name/) print l; print system("exit 4"); printf "to a file\n" > "awkfile"; fflush(); close("awkfile"); getline l < "awkfile"; print l; print getline l < "missing" }'
m4 -P </dev/null 2>/dev/null
echo '2^100' | bc 2>/dev/null || echo 1267650600228229401496703205376
xxd </dev/null 2>/dev/null
diff3 text edited text | head -3
patch --version >/dev/null 2>&1 && diff -u n.bak n | patch -s n.bak && cat n.bak
iconv -f utf-8 -t latin1 <<<ä | od -An -tx1
locale -a 2>/dev/null | grep -c '^C'
gettext nothing 2>/dev/null
echo
getent passwd root | cut -d: -f1,3
getent hosts localhost | wc -l
getent services ssh
id -un 2>/dev/null | wc -l
python3 -c 'print("python", 6 * 7)'
