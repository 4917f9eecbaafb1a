"""Rows of features by id: stores, the sources that they accept, and caches in front of them."""

from __future__ import annotations

from aethergraph.features.adapters import as_row_source, attribute_store
from aethergraph.features.cached import CachedRows
from aethergraph.features.store import FeatureStore

__all__ = ["CachedRows", "FeatureStore", "as_row_source", "attribute_store"]
