"""Conversion of more edges than memory holds: runs on disk, lists from them, a journal."""
