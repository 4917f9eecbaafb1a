"""``python -m aethergraph``: the command line, for a shell whose path lacks the command."""

from aethergraph.cli import main

if __name__ == "__main__":
    main()
