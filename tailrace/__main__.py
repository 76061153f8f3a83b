"""`python -m tailrace` is `tailrace`."""

from tailrace.cli.app import main

if __name__ == "__main__":
    main()
