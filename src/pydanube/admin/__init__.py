"""Administration over HTTP. Entered by its files, so that a broker without an HTTP port imports no web server."""
