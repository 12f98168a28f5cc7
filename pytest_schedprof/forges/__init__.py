"""GitHub and GitLab: their jobs, pull requests, artifacts, and the checkout of a job."""
