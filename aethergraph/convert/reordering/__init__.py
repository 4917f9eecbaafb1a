"""Reordering of graph files within a memory budget: :func:`reorder`."""
