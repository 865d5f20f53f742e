// The types of preact-htm.js, for `tsc --checkJs`. Not served.

export type View = any;
export function h(type: any, properties?: any, ...children: any[]): View;
export function html(parts: TemplateStringsArray, ...values: any[]): View;
export function render(view: View, place: Element): void;
export function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(run: () => void | (() => void), on?: readonly unknown[]): void;
export function useLayoutEffect(run: () => void | (() => void), on?: readonly unknown[]): void;
export function useRef<T>(first: T): { current: T };
export function useMemo<T>(make: () => T, on: readonly unknown[]): T;
export function useErrorBoundary(seen?: (error: any) => void): [any, () => void];
