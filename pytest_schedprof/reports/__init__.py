"""Results as a person reads them. Pure: text out."""
