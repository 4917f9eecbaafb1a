"""Graphs: compressed lists of one type of edges or many, built from edges or opened from a file."""
