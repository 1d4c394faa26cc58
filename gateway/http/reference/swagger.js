"use strict";

// Swagger UI shows the Markdown of the description as HTML, which DOMPurify cleans first. Scripts
// and addresses of scripts are not made: the policy has no function for them.
if (window.trustedTypes) {
  window.trustedTypes.createPolicy("default", { createHTML: (html) => html });
}

window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "none",
  displayOperationId: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: false,
  syntaxHighlight: false,
  validatorUrl: null,
});
