// Whether a webhook comes from the gateway (Standard Webhooks).

import {
  InvalidArgumentError,
  type JSONValue,
  type Experimental_VideoModelV4OperationWebhook as Notification,
} from "@ai-sdk/provider";
import { Webhook } from "standardwebhooks";

/** The notification with its body parsed; fails unless it is signed with the secret and less than five minutes old. */
export function verified({ headers, body }: Notification, secret: string): Notification {
  if (typeof body !== "string") {
    const message = "With a webhookSecret, received must resolve to the body as text: its signature covers the bytes.";
    throw new InvalidArgumentError({ argument: "webhook", message });
  }
  return { headers, body: new Webhook(secret).verify(body, headers) as JSONValue };
}
