"""Context managers for scripts and notebooks, on top of the plugin's recorder."""
