"""Readers of what other tools wrote: OGB's folders, GraphZero's files."""
