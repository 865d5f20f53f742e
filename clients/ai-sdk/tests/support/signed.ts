// Signs as the standard says, by itself, so that the package's library is not its own judge.

import { createHmac, randomUUID } from "node:crypto";

/** The headers of a delivery. */
export function signed(body: string, secret: string, at = Math.floor(Date.now() / 1000)): Record<string, string> {
  const id = `msg_${randomUUID().replaceAll("-", "")}`;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${at}.${body}`).digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(at),
    "webhook-signature": `v1,${signature}`,
  };
}
