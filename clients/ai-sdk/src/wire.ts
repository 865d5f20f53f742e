// What the gateway answers: the video object, its errors, and the film.

import {
  createJsonErrorResponseHandler,
  readResponseWithSizeLimit,
  type ResponseHandler,
} from "@ai-sdk/provider-utils";
import { z } from "zod/v4";

export const videoObject = z.object({
  id: z.string(),
  model: z.string(),
  // Words that are new to this package mean that it is not done.
  status: z.string(),
  progress: z.number(),
  error: z.object({ code: z.string(), message: z.string() }).nullish(),
  video: z
    .object({
      url: z.string(),
      mime_type: z.string(),
      width: z.number(),
      height: z.number(),
      seconds: z.number(),
      bytes: z.number(),
      sha256: z.string(),
      expires_at: z.string(),
    })
    .nullish(),
});

export type VideoObject = z.infer<typeof videoObject>;

const errorBody = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    code: z.string(),
    param: z.string().nullish(),
    request_id: z.string().nullish(),
    task_id: z.string().nullish(),
  }),
});

/** `APICallError`s, whose `data.error.code` is the gateway's. */
export const failedResponse = createJsonErrorResponseHandler({
  errorSchema: errorBody,
  errorToMessage: ({ error }) => error.message,
  isRetryable,
});

/**
 * The gateway says with each error whether to repeat. An answer that does not say comes from a proxy before it: then
 * it may be repeated when the gateway was away or busy, which is safe, for a start keeps its key.
 */
function isRetryable({ headers, status }: Response): boolean {
  const told = headers.get("x-should-retry");
  return told === null ? [429, 502, 503, 504].includes(status) : told === "true";
}

/** A film's bytes, two gigabytes at most. */
export const filmResponse: ResponseHandler<Uint8Array> = async ({ response, url }) => ({
  value: await readResponseWithSizeLimit({ response, url }),
});
