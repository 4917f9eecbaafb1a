"""Rows of features by id: stores, the sources that they accept, and caches in front of them."""

from __future__ import annotations

from aethergraph.features.cached import CachedRows
from aethergraph.features.store import FeatureStore, as_row_source, attribute_store

__all__ = ["CachedRows", "FeatureStore", "as_row_source", "attribute_store"]
