"""Words and numbers, tables, and thin writers: terminal, Markdown, JUnit, HTML. Pure."""
