import { MAX_RETRY_AFTER_MS } from "../core/retry.ts";

/** The three forms of an HTTP date begin with the day of the week and hold a time of day. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? [\x20-\x7E]*\d\d:\d\d:\d\d/;

/** The wait that a `Retry-After` header asks for, in ms: 0 (also for a moment in the past, or a text that says nothing) to 7 days. */
export function retryAfterMs(header: string | undefined, nowMs: number): number {
  const text = header?.trim() ?? "";
  let ms = 0;
  if (/^\d+$/.test(text)) ms = Number(text) * 1_000;
  // Without a zone (the form of asctime) it is GMT too, and not the zone of this machine.
  else if (HTTP_DATE.test(text)) ms = Date.parse(text.endsWith("GMT") ? text : `${text} GMT`) - nowMs;
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : 0;
}
