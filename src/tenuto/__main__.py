"""`python -m tenuto`: the command line."""

from tenuto.cli import main

if __name__ == "__main__":
    main()
