"""The limit language and its verdicts. Pure: no pytest, no distributed."""
