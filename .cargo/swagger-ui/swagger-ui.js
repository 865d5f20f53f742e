// Left out: the page loads swagger-ui-bundle.js.
