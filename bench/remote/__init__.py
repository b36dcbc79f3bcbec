"""Servers with remote peers, and queries over tables: what is run where cores are parted."""
