"""The line to other processes, and what runs there."""
