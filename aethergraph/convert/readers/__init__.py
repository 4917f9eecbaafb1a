"""Readers of edge lists and of tables by node: text, Parquet, .npy files, chunks of a program."""
