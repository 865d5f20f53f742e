// The body of `POST /v1/videos` from the SDK's options, with a warning for each option that the gateway has no
// field for. What a model does not offer is the gateway's to refuse.

import type {
  Experimental_VideoModelV4CallOptions as CallOptions,
  Experimental_VideoModelV4File as File,
  JSONObject,
  SharedV4Warning as Warning,
} from "@ai-sdk/provider";
import { convertImageModelFileToDataUri, parseProviderOptions } from "@ai-sdk/provider-utils";
import { z } from "zod/v4";

/** `providerOptions.mediagate` */
export type MediagateVideoOptions = {
  /** What the video shall not show. */
  negativePrompt?: string | undefined;
  /** In place of the SDK's `resolution`: the shorter side, as in `1080p`. */
  resolution?: string | undefined;
  /** Your name for your end user; kept on the task. */
  user?: string | undefined;
  /** Fields for the provider behind the gateway, where the operator lets them through. */
  providerOptions?: JSONObject | undefined;
};

// Strict: the gateway ignores fields that it does not know, so a typo would be lost.
const videoOptions: z.ZodType<MediagateVideoOptions> = z.strictObject({
  negativePrompt: z.string().optional(),
  resolution: z.string().optional(),
  user: z.string().optional(),
  providerOptions: z.record(z.string(), z.json()).optional(),
});

export interface VideoRequest {
  body: Record<string, unknown>;
  warnings: Warning[];
}

export async function videoRequest(
  modelId: string,
  options: CallOptions & { webhookUrl?: string | undefined },
): Promise<VideoRequest> {
  const warnings: Warning[] = [];
  const more = await parseProviderOptions({
    provider: "mediagate",
    providerOptions: options.providerOptions,
    schema: videoOptions,
  });
  if (options.n > 1) {
    warnings.push({ type: "unsupported", feature: "n", details: "One call makes one video." });
  }
  if (options.fps !== undefined) {
    warnings.push({ type: "unsupported", feature: "fps", details: "The model decides the frame rate." });
  }
  const body = {
    model: modelId,
    prompt: options.prompt,
    ...pictures(options, warnings),
    seconds: options.duration,
    size: options.resolution,
    resolution: more?.resolution,
    aspect_ratio: aspectRatio(options, warnings),
    audio: options.generateAudio,
    seed: options.seed,
    negative_prompt: more?.negativePrompt,
    provider_options: more?.providerOptions,
    user: more?.user,
    callback_url: options.webhookUrl,
  };
  return { body, warnings };
}

/** The gateway takes a size or a shape. */
function aspectRatio({ aspectRatio, resolution }: CallOptions, warnings: Warning[]): string | undefined {
  if (aspectRatio === "adaptive") {
    const details = "The gateway follows the orientation of the first frame, not its exact shape.";
    warnings.push({ type: "compatibility", feature: "aspectRatio", details });
    return undefined;
  }
  if (aspectRatio === undefined || resolution === undefined) return aspectRatio;
  if (quotient(aspectRatio, ":") !== quotient(resolution, "x")) {
    const details = `The resolution ${resolution} decides the shape; ${aspectRatio} was left out.`;
    warnings.push({ type: "unsupported", feature: "aspectRatio", details });
  }
  return undefined;
}

function quotient(text: string, between: string): number {
  const [first, second] = text.split(between).map(Number);
  return (first ?? Number.NaN) / (second ?? Number.NaN);
}

function pictures(options: CallOptions, warnings: Warning[]): Record<string, unknown> {
  const frame = (type: "first_frame" | "last_frame") => {
    const frames = options.frameImages?.filter(({ frameType }) => frameType === type) ?? [];
    if (frames.length > 1) {
      warnings.push({ type: "other", message: `Only the first image of type ${type} was sent.` });
    }
    return frames[0]?.image;
  };
  const first = frame("first_frame") ?? options.image;
  const last = frame("last_frame");
  const references = options.inputReferences?.filter(isPicture) ?? [];
  if (references.length < (options.inputReferences?.length ?? 0)) {
    const details = "References that are no images were left out.";
    warnings.push({ type: "unsupported", feature: "inputReferences", details });
  }
  return {
    input_reference: first && { image_url: convertImageModelFileToDataUri(first) },
    end_image: last && convertImageModelFileToDataUri(last),
    reference_images: references.length > 0 ? references.map(convertImageModelFileToDataUri) : undefined,
  };
}

/** An address alone does not say what it leads to; the gateway looks. */
function isPicture({ mediaType }: File): boolean {
  return mediaType === undefined || mediaType === "image" || mediaType.startsWith("image/");
}
