"""Where pull requests and their jobs are: GitHub."""
