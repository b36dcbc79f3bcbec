"""DuckDB: Parquet files written, scanned, joined and grouped, and a database of its own."""

import os
import sys

import duckdb

folder = sys.argv[1]
duckdb.sql("set threads to 2")
for part in range(4):
    rows = f"select i as number, i % 101 as kind, repeat(i::varchar, 3) as text from range({part * 50000}, {part * 50000 + 50000}) t(i)"
    duckdb.sql(f"copy ({rows}) to '{folder}/part{part}.parquet' (compression zstd)")
print(duckdb.sql(f"select count(*), sum(number), sum(length(text)) from '{folder}/*.parquet'").fetchall())
print(
    duckdb.sql(
        f"select kind, sum(number) as s from '{folder}/*.parquet' group by kind order by s desc limit 3"
    ).fetchall()
)
print(
    duckdb.sql(
        f"select filename[-13:], max(number) from read_parquet('{folder}/*.parquet', filename=true) group by 1 order by 1"
    ).fetchall()
)
with duckdb.connect(f"{folder}/own.duckdb") as own:
    own.sql(f"create table rows as select * from '{folder}/part1.parquet'")
    own.sql("update rows set kind = kind + 1 where number % 2 = 0")
with duckdb.connect(f"{folder}/own.duckdb", read_only=True) as own:
    print(own.sql("select sum(kind), count(distinct text) from rows").fetchall())
try:
    duckdb.sql(f"select * from '{folder}/none.parquet'")
except duckdb.Error as error:
    print(type(error).__name__)
os.remove(f"{folder}/own.duckdb")
