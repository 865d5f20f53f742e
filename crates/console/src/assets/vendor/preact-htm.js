// Preact and htm in one module, which the console's views import.

import htm from "./htm.js";
import { h, render } from "./preact.js";

const html = htm.bind(h);

export { h, html, render };
export { useErrorBoundary } from "./preact-hooks.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./preact-hooks.js";
