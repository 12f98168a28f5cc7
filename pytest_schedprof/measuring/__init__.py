"""One test from its plan to its record; the settings; context managers for scripts; the doctor."""
