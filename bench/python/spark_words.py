"""Word count by Spark, the second of two in one session: `python spark_words.py INPUT OUTPUT`."""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession, functions


def count(spark: SparkSession, source: str, target: str) -> None:
    """Counts the words of a file and writes them in order, as one file."""
    words = functions.explode(functions.split("value", r"[\x00-\x20]+")).alias("word")
    rows = spark.read.text(source).select(words).where("word != ''").groupBy("word").count().collect()
    counted = sorted((row["word"].encode(), row["count"]) for row in rows)
    with open(target, "wb") as out:
        for word, number in counted:
            out.write(word + b"\t%d\n" % number)


def main() -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    count(spark, *sys.argv[1:3])
    begun = time.monotonic()
    count(spark, *sys.argv[1:3])
    print(json.dumps({"seconds": time.monotonic() - begun}))
    spark.stop()


main()
