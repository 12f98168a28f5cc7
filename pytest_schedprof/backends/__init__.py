"""Tools that can observe a scheduler, one file each, and the contract they keep."""
