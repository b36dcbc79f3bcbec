"""Tables and queries after TPC-H, for DuckDB and PostgreSQL: all eight tables, all 22 queries (`tpch_queries.py`).

The rows are of a generator of its own, in DuckDB's SQL: the specification's numbers of rows, keys that are missing in
between, and shares of values as far as a query sees them. It is no dbgen and the runs are no TPC-H runs, so figures compare
with each other and with no published one. `tpch.py FILE SECONDS SCALE` asks DuckDB the queries, and prints how many an hour.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tpch_queries import queries

# Rows of scale 1. Fewer than 250 suppliers could not give each part four different ones.
ROWS_OF_SCALE_1 = {"suppliers": 10_000, "parts": 200_000, "customers": 150_000, "orders": 1_500_000}
ROWS_LEAST = {"suppliers": 250, "parts": 1_000, "customers": 150, "orders": 1_500}

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = {
    "ALGERIA": 0, "ARGENTINA": 1, "BRAZIL": 1, "CANADA": 1, "EGYPT": 4, "ETHIOPIA": 0, "FRANCE": 3, "GERMANY": 3, "INDIA": 2,
    "INDONESIA": 2, "IRAN": 4, "IRAQ": 4, "JAPAN": 2, "JORDAN": 4, "KENYA": 0, "MOROCCO": 0, "MOZAMBIQUE": 0, "PERU": 1,
    "CHINA": 2, "ROMANIA": 3, "SAUDI ARABIA": 4, "VIETNAM": 2, "RUSSIA": 3, "UNITED KINGDOM": 3, "UNITED STATES": 1,
}  # fmt: skip
COLOURS = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse chiffon chocolate coral"
    " cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew"
    " hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty moccasin navajo"
    " navy olive orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna"
    " sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow"
).split()
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
TYPES = [["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"], ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"]]
TYPES += [["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]]
CONTAINERS = [["SM", "LG", "MED", "JUMBO", "WRAP"], ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]]
# Of comments the queries look for `special` before `requests`, in one of a hundred.
ADJECTIVES = "special pending unusual express furious sly careful blithe quick fluffy slow quiet ruthless thin close dogged".split()
NOUNS = (
    "requests packages accounts deposits foxes ideas theodolites instructions dependencies excuses platelets asymptotes courts dolphins"
    " multipliers sauternes warthogs frets dinos attainments"
).split()
VERBS = "sleep wake are cajole haggle nag use boost affix detect integrate maintain nod was lose sublate solve thrash promise engage".split()


def one_of(words: list[str], key: str, seed: int) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"([{listed}])[1 + {below(len(words), key, seed)}]"


def below(count: int, key: str, seed: int) -> str:
    """A number of the key's, evenly from 0 and below the count."""
    return f"(hash(({key}) * 1000 + {seed}) % {count})::BIGINT"


def money(least: int, most: int, key: str, seed: int) -> str:
    """Between two numbers of cents, evenly."""
    return f"(({least} + {below(most - least + 1, key, seed)}) / 100)::DECIMAL(15,2)"


def comment(key: str, seed: int) -> str:
    parts = [(ADJECTIVES, 0), (NOUNS, 1), (VERBS, 2), (ADJECTIVES, 3), (NOUNS, 4)]
    return " || ' ' || ".join(one_of(words, key, seed + at) for words, at in parts)


def joined(lists: list[list[str]], key: str, seed: int) -> str:
    return " || ' ' || ".join(one_of(words, key, seed + at) for at, words in enumerate(lists))


def phone(nation: str, key: str, seed: int) -> str:
    pieces = [f"(10 + {nation})"] + [f"({least} + {below(10 * least - least, key, seed + at)})" for at, least in enumerate((100, 100, 1000))]
    return " || '-' || ".join(pieces)


def price(part: str) -> str:
    return f"((90000 + ({part} // 10) % 20001 + 100 * ({part} % 1000)) / 100)::DECIMAL(15,2)"


def supplier_of(part: str, which: str, suppliers: int) -> str:
    """One of the four suppliers of a part."""
    return f"(({part} + {which} * ({suppliers // 4} + ({part} - 1) // {suppliers})) % {suppliers} + 1)"


def named(kind: str, key: str) -> str:
    return f"'{kind}#' || lpad({key}::VARCHAR, 9, '0')"


def tables(scale: float) -> dict[str, str]:
    """The select of each table, in an order in which each finds what it needs."""
    rows = {name: max(ROWS_LEAST[name], int(count * scale)) for name, count in ROWS_OF_SCALE_1.items()}
    suppliers, parts, customers, orders = rows.values()
    nations = ", ".join(f"({at}, '{name}', {region})" for at, (name, region) in enumerate(NATIONS.items()))
    regions = ", ".join(f"({at}, '{name}')" for at, name in enumerate(REGIONS))
    # Five of 10,000 suppliers have complaints, as many have recommendations.
    said = f"CASE WHEN k % 2000 = 7 THEN 'sly Customer packages wake Complaints' WHEN k % 2000 = 9 THEN 'Customer deposits Recommends' ELSE {comment('k', 10)} END"
    home = below(25, "k", 1)
    return {
        "region": f"SELECT r_regionkey, r_name, {comment('r_regionkey', 1)} AS r_comment FROM (VALUES {regions}) t(r_regionkey, r_name)",
        "nation": f"SELECT n_nationkey, n_name, n_regionkey, {comment('n_nationkey', 11)} AS n_comment FROM (VALUES {nations}) t(n_nationkey, n_name, n_regionkey)",
        "supplier": f"""SELECT k AS s_suppkey, {named("Supplier", "k")} AS s_name, md5(k::VARCHAR)[1:24] AS s_address, {home} AS s_nationkey,
            {phone(home, "k", 2)} AS s_phone, {money(-99999, 999999, "k", 5)} AS s_acctbal, {said} AS s_comment FROM range(1, {suppliers + 1}) t(k)""",
        "part": f"""SELECT k AS p_partkey, {joined([COLOURS] * 5, "k", 20)} AS p_name, 'Manufacturer#' || m AS p_mfgr, 'Brand#' || m || (1 + {below(5, "k", 26)}) AS p_brand,
            {joined(TYPES, "k", 30)} AS p_type, 1 + {below(50, "k", 34)} AS p_size, {joined(CONTAINERS, "k", 35)} AS p_container,
            {price("k")} AS p_retailprice, {comment("k", 40)} AS p_comment FROM (SELECT k, 1 + {below(5, "k", 25)} AS m FROM range(1, {parts + 1}) t(k))""",
        "partsupp": f"""SELECT k AS ps_partkey, {supplier_of("k", "i", suppliers)} AS ps_suppkey, 1 + {below(9999, "4 * k + i", 50)} AS ps_availqty,
            {money(100, 100000, "4 * k + i", 51)} AS ps_supplycost, {comment("4 * k + i", 52)} AS ps_comment FROM range(1, {parts + 1}) t(k), range(4) u(i)""",
        "customer": f"""SELECT k AS c_custkey, {named("Customer", "k")} AS c_name, md5((-k)::VARCHAR)[1:24] AS c_address, {home.replace(" 1)", " 60)")} AS c_nationkey,
            {phone(home.replace(" 1)", " 60)"), "k", 61)} AS c_phone, {money(-99999, 999999, "k", 64)} AS c_acctbal, {one_of(SEGMENTS, "k", 65)} AS c_mktsegment,
            {comment("k", 66)} AS c_comment FROM range(1, {customers + 1}) t(k)""",
        **ordered(suppliers, parts, customers, orders),
    }


def ordered(suppliers: int, parts: int, customers: int, orders: int) -> dict[str, str]:
    """Lines, and the orders that they make: of 32 keys eight are given, and a third of the customers orders nothing."""
    # One that is no multiple of three.
    buyer = below(customers // 3 * 2, "i", 70)
    lines = f"""SELECT i, i // 8 * 32 + i % 8 + 1 AS key, day, unnest(range(1, {2} + {below(7, "i", 73)})) AS line
        FROM (SELECT i, DATE '1992-01-01' + {below(2406, "i", 72)}::INT AS day FROM range({orders}) t(i))"""
    of_line = f"""SELECT key, day, line, k, part, {supplier_of("part", below(4, "k", 81), suppliers)} AS supplier, 1 + {below(50, "k", 82)} AS quantity,
        day + (1 + {below(121, "k", 83)})::INT AS shipped FROM (SELECT *, 1 + {below(parts, "k", 80)} AS part FROM (SELECT *, key * 8 + line AS k FROM ({lines})))"""
    received = f"(shipped + (1 + {below(30, 'k', 84)})::INT)"
    return {
        "lineitem": f"""SELECT key AS l_orderkey, part AS l_partkey, supplier AS l_suppkey, line::INT AS l_linenumber, quantity::DECIMAL(15,2) AS l_quantity,
            (quantity * {price("part")})::DECIMAL(15,2) AS l_extendedprice, {money(0, 10, "k", 85)} AS l_discount, {money(0, 8, "k", 86)} AS l_tax,
            CASE WHEN {received} > DATE '1995-06-17' THEN 'N' WHEN {below(2, "k", 87)} = 0 THEN 'R' ELSE 'A' END AS l_returnflag,
            CASE WHEN shipped > DATE '1995-06-17' THEN 'O' ELSE 'F' END AS l_linestatus, shipped AS l_shipdate, day + (30 + {below(61, "k", 88)})::INT AS l_commitdate,
            {received} AS l_receiptdate, {one_of(INSTRUCTIONS, "k", 89)} AS l_shipinstruct, {one_of(MODES, "k", 90)} AS l_shipmode, {comment("k", 91)} AS l_comment
            FROM ({of_line})""",
        "orders": f"""SELECT l_orderkey AS o_orderkey, {buyer} // 2 * 3 + {buyer} % 2 + 1 AS o_custkey, status AS o_orderstatus, total AS o_totalprice,
            DATE '1992-01-01' + {below(2406, "i", 72)}::INT AS o_orderdate, {one_of(PRIORITIES, "i", 74)} AS o_orderpriority,
            {named("Clerk", f"(1 + {below(max(1, orders // 1500), 'i', 75)})")} AS o_clerk, 0 AS o_shippriority, {comment("i", 100)} AS o_comment
            FROM (SELECT l_orderkey, (l_orderkey - 1) // 32 * 8 + (l_orderkey - 1) % 32 AS i,
                CASE WHEN min(l_linestatus) = max(l_linestatus) THEN min(l_linestatus) ELSE 'P' END AS status,
                sum(l_extendedprice * (1 + l_tax) * (1 - l_discount))::DECIMAL(15,2) AS total FROM lineitem GROUP BY l_orderkey)""",
    }


TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "lineitem", "orders")
TYPE_OF = {"key": "bigint", "date": "date", "acctbal": "decimal(15,2)", "price": "decimal(15,2)", "cost": "decimal(15,2)"}
TYPE_OF |= {name: "decimal(15,2)" for name in ("l_quantity", "discount", "tax")}
TYPE_OF |= {name: "int" for name in ("size", "availqty", "linenumber", "shippriority")}
KEYS = {
    "region": ["r_regionkey"], "nation": ["n_nationkey"], "supplier": ["s_suppkey", "s_nationkey"], "part": ["p_partkey"],
    "partsupp": ["ps_partkey, ps_suppkey", "ps_suppkey"], "customer": ["c_custkey", "c_nationkey"], "orders": ["o_orderkey", "o_custkey"],
    "lineitem": ["l_orderkey, l_linenumber", "l_partkey, l_suppkey", "l_suppkey"],
}  # fmt: skip


def columns(table: str, names: list[str]) -> str:
    """A table's columns with their types, as PostgreSQL wants them."""
    kind = lambda name: next((word for end, word in TYPE_OF.items() if name.endswith(end)), "text")
    return ", ".join(f"{name} {kind(name)}" for name in names)


def make(path: Path, scale: float) -> None:
    """Makes a DuckDB file with the tables; beside it a CSV file a table, and `load.sql` for what loads them."""
    import duckdb

    made = []
    with duckdb.connect(str(path)) as connection:
        for table, select in tables(scale).items():
            connection.execute(f"CREATE TABLE {table} AS {select}")
            connection.execute(f"COPY {table} TO '{path.with_name(table)}.csv' (HEADER false)")
            names = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
            made += [f"CREATE TABLE {table} ({columns(table, names)});", f"\\copy {table} FROM '{path.with_name(table)}.csv' (FORMAT csv)"]
            made += [f"CREATE INDEX ON {table} ({keys});" for keys in KEYS[table]]
    path.with_name("load.sql").write_text("\n".join([*made, "ANALYZE;", ""]))


def main() -> None:
    import duckdb

    path, seconds, scale = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    with duckdb.connect(path, read_only=True) as connection:
        ask = [lambda text=text: connection.execute(text).fetchall() for text in queries(scale).values()]
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
