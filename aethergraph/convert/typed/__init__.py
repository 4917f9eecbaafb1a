"""Typed graphs from tables: schema, sources, and the build within a memory budget."""
