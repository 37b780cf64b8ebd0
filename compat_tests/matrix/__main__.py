"""`python -m compat_tests.matrix`."""

import sys

from compat_tests.matrix.command import main

if __name__ == "__main__":
    sys.exit(main())
