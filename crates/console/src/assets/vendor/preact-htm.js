// Preact and htm under one roof: what the console's views are written with.

import htm from "./htm.js";
import { h, render } from "./preact.js";

const html = htm.bind(h);

export { h, html, render };
export { useErrorBoundary } from "./preact-hooks.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./preact-hooks.js";
