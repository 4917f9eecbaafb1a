"""Rows of features by id: stores, the sources that they accept, and caches in front of them."""

from __future__ import annotations

from aethergraph.features.adapters import as_row_source, attribute_store
from aethergraph.features.cached import CachedRows
from aethergraph.features.feature_table import FeatureTable

__all__ = ["CachedRows", "FeatureTable", "as_row_source", "attribute_store"]
