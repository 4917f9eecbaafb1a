"""Programs that benchmarks run in processes of their own: ours and the peers'."""
