// A video model: starts a video, asks how it is, fetches it. Waiting and repeating are the SDK's part.

import {
  type Experimental_VideoModelV4OperationStartResult as StartResult,
  type Experimental_VideoModelV4OperationStatusResult as StatusResult,
  InvalidArgumentError,
  type JSONObject,
  type JSONValue,
  type Experimental_VideoModelV4 as VideoModelV4,
} from "@ai-sdk/provider";
import {
  createJsonResponseHandler,
  type FetchFunction,
  getFromApi,
  normalizeHeaders,
  postJsonToApi,
  type ResponseHandler,
} from "@ai-sdk/provider-utils";
import { z } from "zod/v4";

import { videoRequest } from "./request.js";
import { verified } from "./webhook.js";
import { failedResponse, filmResponse, type VideoObject, videoObject } from "./wire.js";

type StartOptions = Parameters<NonNullable<VideoModelV4["doStart"]>>[0];
type StatusOptions = Parameters<NonNullable<VideoModelV4["doStatus"]>>[0];
type WebhookOption = Parameters<NonNullable<VideoModelV4["handleWebhookOption"]>>[0];

export interface Connection {
  baseURL: string;
  headers: () => Record<string, string>;
  fetch: FetchFunction | undefined;
  webhookSecret: string | undefined;
}

// The id becomes a part of an address, and operations are kept by others.
const operation = z.object({ id: z.string().regex(/^[\w-]{1,100}$/) });

export class MediagateVideoModel implements VideoModelV4 {
  readonly specificationVersion = "v4";
  readonly provider = "mediagate.video";
  readonly maxVideosPerCall = 1;

  constructor(
    readonly modelId: string,
    private readonly connection: Connection,
  ) {}

  async handleWebhookOption({ webhook }: WebhookOption) {
    const { url, received } = await webhook();
    const secret = this.connection.webhookSecret;
    if (secret === undefined) return { webhookUrl: url, received };
    return { webhookUrl: url, received: Promise.resolve(received).then((told) => verified(told, secret)) };
  }

  async doStart(options: StartOptions): Promise<StartResult> {
    const timestamp = new Date();
    const { body, warnings } = await videoRequest(this.modelId, options);
    const { value: video, responseHeaders } = await postJsonToApi({
      url: `${this.connection.baseURL}/videos`,
      // The SDK gives each start a key of its own, the same at each repetition.
      headers: { "idempotency-key": crypto.randomUUID(), ...this.headers(options) },
      body,
      failedResponseHandler: failedResponse,
      successfulResponseHandler: createJsonResponseHandler(videoObject),
      abortSignal: options.abortSignal,
      fetch: this.connection.fetch,
    });
    return {
      operation: { id: video.id },
      warnings,
      providerMetadata: { mediagate: { id: video.id } },
      response: { timestamp, modelId: video.model, headers: responseHeaders },
    };
  }

  async doStatus(options: StatusOptions): Promise<StatusResult> {
    const timestamp = new Date();
    const path = `videos/${idOf(options.operation)}`;
    const { value: video, responseHeaders } = await this.get(path, createJsonResponseHandler(videoObject), options);
    const answer = {
      providerMetadata: { mediagate: metadata(video) },
      response: { timestamp, modelId: video.model, headers: responseHeaders },
    };
    if (video.status === "failed") return { status: "error", error: reason(video), ...answer };
    if (video.status !== "completed") return { status: "pending", ...answer };
    // Not by the film's own address: the SDK fetches none in a private network, where gateways often are.
    const { value: data } = await this.get(`${path}/content`, filmResponse, options);
    const mediaType = video.video?.mime_type ?? "video/mp4";
    return { status: "completed", videos: [{ type: "binary", data, mediaType }], warnings: [], ...answer };
  }

  private get<T>(path: string, successfulResponseHandler: ResponseHandler<T>, options: StatusOptions) {
    return getFromApi({
      url: `${this.connection.baseURL}/${path}`,
      headers: this.headers(options),
      failedResponseHandler: failedResponse,
      successfulResponseHandler,
      abortSignal: options.abortSignal,
      fetch: this.connection.fetch,
      validateUrl: false,
    });
  }

  /** Names in lower case, or a call could not replace what the settings say. */
  private headers(call: { headers?: Record<string, string | undefined> }): Record<string, string> {
    return { ...this.connection.headers(), ...normalizeHeaders(call.headers) };
  }
}

function idOf(value: JSONValue): string {
  const read = operation.safeParse(value);
  if (read.success) return read.data.id;
  const message = "This is no operation that a Mediagate model started.";
  throw new InvalidArgumentError({ argument: "operation", message, cause: read.error });
}

/** The SDK throws this text and no more, so the code is in it. */
function reason({ id, error }: VideoObject): string {
  if (!error) return `The video ${id} failed.`;
  const what = error.code === "cancelled" ? "was cancelled" : "failed";
  return `The video ${id} ${what}: ${error.message} (${error.code})`;
}

function metadata({ id, status, progress, error, video }: VideoObject): JSONObject {
  return {
    id,
    status,
    progress,
    ...(error && { error }),
    // The SDK joins the lists of this name when it makes several videos.
    ...(video && { videos: [{ id, ...camel(video) }] }),
  };
}

function camel({ mime_type, expires_at, ...rest }: NonNullable<VideoObject["video"]>): JSONObject {
  return { ...rest, mimeType: mime_type, expiresAt: expires_at };
}
