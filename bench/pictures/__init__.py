"""Pictures of benchmarks, drawn to files."""
