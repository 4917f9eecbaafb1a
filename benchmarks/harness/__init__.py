"""What benchmarks share: reports, processes that take turns, limits, devices."""
