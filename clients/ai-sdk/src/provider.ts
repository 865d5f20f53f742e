// Settings, and the provider that makes models of them. Knows nothing of requests.

import { type Experimental_VideoModelV4 as VideoModelV4, NoSuchModelError, type ProviderV4 } from "@ai-sdk/provider";
import { type FetchFunction, loadApiKey, normalizeHeaders, withoutTrailingSlash } from "@ai-sdk/provider-utils";

import { MediagateVideoModel } from "./video-model.js";

export interface MediagateSettings {
  /** Where the gateway's API is, as for OpenAI's SDKs: `http://127.0.0.1:8080/v1`. */
  baseURL: string;
  /** `MEDIAGATE_API_KEY` of the environment when left out. */
  apiKey?: string | undefined;
  /** Sent with every request. */
  headers?: Record<string, string | undefined> | undefined;
  /** In place of the global `fetch`. */
  fetch?: FetchFunction | undefined;
  /**
   * `whsec_…`, from `GET /v1/webhooks/secret`. With it a webhook is believed only if its signature is right, and
   * the `webhook` option must pass on the body as the text that arrived.
   */
  webhookSecret?: string | undefined;
}

export interface MediagateProvider extends ProviderV4 {
  /** A video model by the name that the gateway offers it under. */
  video(modelId: string): VideoModelV4;
  /** The same; provider registries look for this name. */
  videoModel(modelId: string): VideoModelV4;
}

export function createMediagate(settings: MediagateSettings): MediagateProvider {
  const headers = () => {
    const apiKey = loadApiKey({
      apiKey: settings.apiKey,
      environmentVariableName: "MEDIAGATE_API_KEY",
      description: "Mediagate",
    });
    return { authorization: `Bearer ${apiKey}`, ...normalizeHeaders(settings.headers) };
  };
  const video = (modelId: string) =>
    new MediagateVideoModel(modelId, {
      baseURL: withoutTrailingSlash(settings.baseURL) ?? settings.baseURL,
      headers,
      fetch: settings.fetch,
      webhookSecret: settings.webhookSecret,
    });
  const none = (modelType: "languageModel" | "embeddingModel" | "imageModel") => (modelId: string) => {
    throw new NoSuchModelError({ modelId, modelType });
  };
  return {
    specificationVersion: "v4",
    video,
    videoModel: video,
    languageModel: none("languageModel"),
    embeddingModel: none("embeddingModel"),
    imageModel: none("imageModel"),
  };
}
