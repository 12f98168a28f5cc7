"""Changes recorded workloads: a part of one, copies of one, several as one, one without names."""
