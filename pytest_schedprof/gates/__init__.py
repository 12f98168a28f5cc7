"""The limit language and its verdicts. Pure: imports neither pytest nor distributed."""
