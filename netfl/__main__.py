"""``python -m netfl``: the command line."""

from netfl.cli import main

if __name__ == "__main__":
    main()
