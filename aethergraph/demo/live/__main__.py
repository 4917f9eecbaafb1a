"""Training as a process: graph and options on standard input, events on standard output."""

from __future__ import annotations

import os
import sys

from aethergraph.demo.live.train import main

# The output of libraries must not mix with the events.
events = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
main(sys.stdin.buffer, events)
