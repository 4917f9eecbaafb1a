"""Rows of features by id: stores, the sources that they accept, and caches in front of them."""
