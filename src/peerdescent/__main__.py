"""`python -m peerdescent` is the command `peerdescent`."""

from peerdescent.cli.main import main

if __name__ == "__main__":
    main()
