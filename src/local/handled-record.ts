/** What a handler writes down about a call: enough to tell later, without asking the pipeline, what was handled by whom in which order. */
import { createHash } from "node:crypto";

export interface HandledRecord {
  readonly subscription: string;
  /** Name of the process that ran the handler; a restarted worker has a new one. */
  readonly worker: string;
  readonly orderId: string;
  readonly id: string;
  /** The rest as far as the handler knows it. */
  readonly sequence?: number;
  readonly type?: string;
  readonly time?: string;
  /** {@link dataDigest} of the data's exact text. */
  readonly dataDigest?: string;
}

/** SHA-256 of the data's bytes, so that a record stays short whatever the payload and is written in one piece. */
export function dataDigest(dataText: string): string {
  return createHash("sha256").update(dataText).digest("base64url");
}

/** The record as one line. It begins with a line feed too: a record torn by a kill then spoils no line but its own. */
export function encodeRecord(record: HandledRecord): string {
  return `\n${JSON.stringify(record)}\n`;
}

/** Undefined for a torn record. */
export function decodeRecord(line: string): HandledRecord | undefined {
  try {
    return JSON.parse(line) as HandledRecord;
  } catch {
    return undefined;
  }
}
