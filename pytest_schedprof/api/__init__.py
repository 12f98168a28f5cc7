"""What scripts and notebooks use: context managers over the plugin's own recorder."""
