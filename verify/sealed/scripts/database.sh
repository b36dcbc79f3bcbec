# sqlite3 in its journal modes: transactions, several statements, vacuum, dumps, integrity.
set -u
exec 2>&1

for mode in delete truncate persist memory wal off; do
    echo "-- $mode"
    sqlite3 "$mode.db" "pragma journal_mode=$mode; create table rows(a integer primary key, b text, c real); begin; with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) insert into rows select i, printf('text %05d', i * 7919 % 3001), i / 3.0 from n; commit; create index ib on rows(b);"
    ls "$mode".db*
    sqlite3 "$mode.db" "select count(*), sum(a), min(b), max(b) from rows; update rows set b = b || '!' where a % 3 = 0; begin; delete from rows where a % 2 = 0; select count(*) from rows; rollback; select count(*) from rows where b like '%!'; pragma integrity_check; insert into rows values(1, 'twice', 0);"
    echo $?
    sqlite3 "$mode.db" "delete from rows where a > 100; vacuum; pragma page_count; pragma journal_mode;"
    sqlite3 "$mode.db" .dump | sha256sum
    stat -c '%s' "$mode.db"
    sqlite3 -readonly "$mode.db" "select sum(a) from rows; insert into rows values(1000, '', 0)"
    echo $?
    sqlite3 "$mode.db" "attach 'delete.db' as other; select count(*) from other.rows; create temp table t as select * from rows; select count(*) from t; pragma mmap_size=1000000; select sum(length(b)) from rows"
    sqlite3 "$mode.db" '.backup copy.db'
    sqlite3 copy.db 'pragma integrity_check'
    rm copy.db
    cmp "$mode.db" delete.db >/dev/null
    ls
done
seq 1 2000 | sed 's/.*/&,name &/' >in.csv
printf '.mode csv\n.import in.csv loaded\n.output out.csv\nselect * from loaded limit 5;\n.output stdout\nselect count(*) from loaded;\n.shell echo from the shell\n' | sqlite3 csv.db
cat out.csv
sqlite3 csv.db "create virtual table f using fts5(x); insert into f values('the quick fox'); select * from f where f match 'fox'; select hex(zeroblob(3)), json_extract('{\"a\":[1,2]}', '\$.a[1]')"
sqlite3 missing/x.db 'select 1; create table t(a)'
echo $?
head -c 5000 /dev/urandom >bad.db
sqlite3 bad.db 'select * from x'
echo $?
chmod 400 delete.db
sqlite3 :memory: "create table a(b); insert into a values (1),(2); select sum(b) from a"
rm -f ./*.db*
ls
