"""Recorded runs of the benchmarks: files in bench/results, and what is written from them."""
