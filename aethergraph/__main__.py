"""``python -m aethergraph``: the command line, where the command is not on the path."""

from aethergraph.cli import main

if __name__ == "__main__":
    main()
