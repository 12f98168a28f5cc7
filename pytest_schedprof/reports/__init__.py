"""Results as terminal lines, Markdown, JUnit properties and the output of commands. Pure."""
