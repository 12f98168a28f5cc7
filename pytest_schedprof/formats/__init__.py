"""Reading and writing of profile files. Pure: bytes in, data out."""
