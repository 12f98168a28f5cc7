"""Why a figure changed between two kept results of a test."""
