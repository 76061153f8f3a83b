"""`python -m tailrace` is `tailrace`."""

from tailrace.cli.main import main

if __name__ == "__main__":
    main()
