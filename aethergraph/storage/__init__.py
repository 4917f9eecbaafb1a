"""Places of arrays: container files, mapped or in memory or read by page, within a budget."""
