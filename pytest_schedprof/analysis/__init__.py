"""From samples to shares with honest intervals. Pure: no pytest, no distributed."""
