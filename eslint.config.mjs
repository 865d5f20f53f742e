// Lints of the scripts: what ESLint recommends. `scripts/test lint` runs them. The TypeScript of clients/ has the
// compiler's strict checks instead.

import js from "@eslint/js";
import stylistic from "@stylistic/eslint-plugin";
import globals from "globals";

export default [
  // The first is of others, kept as it was published.
  { ignores: ["crates/console/src/assets/vendor/", "target/", "clients/*/build/", "clients/*/dist/"] },
  js.configs.recommended,
  {
    plugins: { "@stylistic": stylistic },
    rules: {
      // Prettier leaves the templates of the console as they are.
      "@stylistic/max-len": ["error", 120],
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  { files: ["crates/console/src/assets/**/*.js"], languageOptions: { globals: globals.browser } },
  { files: ["**/*.mjs", "**/*.cjs"], languageOptions: { globals: globals.node } },
  // These run functions in the browser's page.
  { files: ["crates/gateway/tests/browser/*.mjs"], languageOptions: { globals: globals.browser } },
];
