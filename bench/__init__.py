"""headrace and its peers, measured side by side. See bench/README.md."""
