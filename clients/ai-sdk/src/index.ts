// What the package offers; everything else is internal.

export { createMediagate, type MediagateProvider, type MediagateSettings } from "./provider.js";
export type { MediagateVideoOptions } from "./request.js";
