"""`python -m edgetool`."""

from edgetool.cli.main import main

if __name__ == "__main__":
    main()
