"""Selection, order and wording of results. Pure: knows neither terminal nor HTML.

The rooms `reports` (terminal and Markdown) and `pages` (HTML) lay out what this room returns.
"""
