"""Five of TPC-H's queries over three of its tables, in DuckDB and PostgreSQL.

The rows are made by formula, with the columns and the shares of values that the queries look at;
there is no dbgen, so figures compare with each other and with no published one. Run as a program,
it asks DuckDB the queries for some seconds, and prints how many an hour.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TABLES = ("customer", "orders", "lineitem")
# Of scale 1 TPC-H has 1.5 million orders.
ORDERS_OF_SCALE = 1_500_000

MAKE = {
    "customer": """
        SELECT k AS c_custkey, ['AUTOMOBILE','BUILDING','FURNITURE','MACHINERY','HOUSEHOLD'][1 + (hash(k) % 5)::INT] AS c_mktsegment
        FROM range({customers}) t(k)""",
    "orders": """
        SELECT k AS o_orderkey, (hash(k, 1) % {customers})::BIGINT AS o_custkey,
               DATE '1992-01-01' + (hash(k, 2) % 2400)::INT AS o_orderdate, 0 AS o_shippriority,
               (1 + hash(k, 3) % 5)::VARCHAR || '-PRIORITY' AS o_orderpriority
        FROM range({orders}) t(k)""",
    "lineitem": """
        SELECT l // 4 AS l_orderkey, (1 + hash(l, 1) % 50)::DOUBLE AS l_quantity, (900 + hash(l, 2) % 100000)::DOUBLE AS l_extendedprice,
               (hash(l, 3) % 11)::DOUBLE / 100 AS l_discount, (hash(l, 4) % 9)::DOUBLE / 100 AS l_tax,
               ['A','N','R'][1 + (hash(l, 5) % 3)::INT] AS l_returnflag, ['F','O'][1 + (hash(l, 6) % 2)::INT] AS l_linestatus,
               d + (1 + hash(l, 7) % 120)::INT AS l_shipdate, d + (30 + hash(l, 8) % 60)::INT AS l_commitdate,
               d + (1 + hash(l, 9) % 150)::INT AS l_receiptdate, ['MAIL','SHIP','AIR','RAIL','TRUCK','FOB','REG'][1 + (hash(l, 10) % 7)::INT] AS l_shipmode
        FROM (SELECT l, DATE '1992-01-01' + (hash(l // 4, 2) % 2400)::INT AS d FROM range({lines}) t(l))""",
}
COLUMNS = {
    "customer": "c_custkey bigint, c_mktsegment text",
    "orders": "o_orderkey bigint, o_custkey bigint, o_orderdate date, o_shippriority int, o_orderpriority text",
    "lineitem": "l_orderkey bigint, l_quantity float8, l_extendedprice float8, l_discount float8, l_tax float8, l_returnflag text,"
    " l_linestatus text, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipmode text",
}
QUERIES = {
    "Q1": "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),"
    " sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_discount), count(*) FROM lineitem"
    " WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "Q3": "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority"
    " FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey"
    " AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'"
    " GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10",
    "Q4": "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'"
    " AND EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)"
    " GROUP BY o_orderpriority ORDER BY o_orderpriority",
    "Q6": "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01'"
    " AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "Q12": "SELECT l_shipmode, sum(CASE WHEN o_orderpriority IN ('1-PRIORITY', '2-PRIORITY') THEN 1 ELSE 0 END), count(*)"
    " FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate"
    " AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'"
    " GROUP BY l_shipmode ORDER BY l_shipmode",
}  # fmt: skip


def make(path: Path, scale: float) -> None:
    """Makes a DuckDB file with the tables, and one CSV file a table beside it."""
    import duckdb

    orders = max(1000, int(ORDERS_OF_SCALE * scale))
    counts = {"orders": orders, "customers": orders // 10, "lines": 4 * orders}
    with duckdb.connect(str(path)) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table} AS {MAKE[table].format(**counts)}")
            connection.execute(f"COPY {table} TO '{path.with_name(table)}.csv' (HEADER false)")


def main() -> None:
    import duckdb

    path, seconds = sys.argv[1], float(sys.argv[2])
    with duckdb.connect(path, read_only=True) as connection:
        ask = [lambda text=text: connection.execute(text).fetchall() for text in QUERIES.values()]
        for query in ask:
            query()
        begin, count = time.perf_counter(), 0
        while (spent := time.perf_counter() - begin) < seconds:
            for query in ask:
                query()
            count += len(ask)
    print(json.dumps({"rate": 3600 * count / spent}))


if __name__ == "__main__":
    main()
