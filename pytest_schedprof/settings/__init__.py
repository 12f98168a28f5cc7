"""The table of options, and the settings made of command line, ini file, markers and calls."""
