"""`python -m pytest_schedprof`, for where scripts are not on the path."""

import sys

from pytest_schedprof.cli.main import main

sys.exit(main())
