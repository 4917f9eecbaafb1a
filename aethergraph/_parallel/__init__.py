"""Work beside the caller: threads that the system may refuse, iterators that run ahead."""
