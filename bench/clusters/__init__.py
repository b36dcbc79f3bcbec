"""What BENCH=cluster measures beyond reads and writes: functions, locks, costs, the log, other engines."""
