// What tests make, and how a film is known.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Experimental_VideoModelV4 as VideoModelV4 } from "@ai-sdk/provider";
import { experimental_generateVideo as generateVideo } from "ai";

/** Small and short; a prompt of its own, so that no two tests mean the same. */
export function small(model: VideoModelV4, prompt = "a lake at dawn") {
  return {
    model,
    prompt: `${prompt} ${randomUUID()}`,
    resolution: "480x480" as const,
    duration: 1,
    poll: { intervalMs: 100, timeoutMs: 100_000 },
  };
}

export async function film(model: VideoModelV4): Promise<Uint8Array> {
  const { video } = await generateVideo(small(model));
  assertFilm(video.uint8Array);
  return video.uint8Array;
}

export function assertFilm(bytes: Uint8Array): void {
  assert.equal(Buffer.from(bytes).toString("latin1", 4, 8), "ftyp");
}
