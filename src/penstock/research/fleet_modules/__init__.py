"""Application modules of the benchmarks of several engines, which take them from this directory."""
