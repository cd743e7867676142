/** The metadata of a pending event blob: enough to order the stream and to see its state in a listing, without reading the blob. */

/** All metadata of a blob has 8 KiB. */
const MAX_ENCODED_ERROR = 6_000;

export interface PendingState {
  /** Sequence of the event in its order. */
  readonly sequence: number;
  /** Sequence of the event before it in this subscription's stream; 0 for the first. A missing blob breaks this chain (W3). */
  readonly previous: number;
  /** How often its handler was started, as far as it was counted: at every failure, and before the start of a suspect (W4). */
  readonly attempts: number;
  /** The subscription's predicate threw when the event was relayed: it is asked again before the handler runs. */
  readonly undecided: boolean;
  /** What went wrong last. Cut to what the metadata has room for. */
  readonly lastError?: string;
}

export function encodePendingState(state: PendingState): Record<string, string> {
  return {
    sequence: String(state.sequence),
    previous: String(state.previous),
    attempts: String(state.attempts),
    ...(state.undecided ? { undecided: "1" } : {}),
    ...(state.lastError === undefined || state.lastError === "" ? {} : { lasterror: encodeText(state.lastError) }),
  };
}

/** Undefined for metadata that {@link encodePendingState} did not write: the blob itself has to be asked. */
export function decodePendingState(metadata: Readonly<Record<string, string>>): PendingState | undefined {
  const sequence = whole(metadata["sequence"]);
  const previous = whole(metadata["previous"]);
  if (sequence === undefined || sequence < 1 || previous === undefined || previous >= sequence) return undefined;
  const lastError = metadata["lasterror"];
  return {
    sequence,
    previous,
    attempts: whole(metadata["attempts"]) ?? 0,
    undecided: metadata["undecided"] !== undefined,
    ...(lastError === undefined ? {} : { lastError: decodeText(lastError) }),
  };
}

function whole(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:0|[1-9][0-9]{0,14})$/.test(text)) return undefined;
  return Number(text);
}

/** Metadata travels in HTTP headers: ASCII only. A unit takes up to nine characters, so a long error of few Latin letters is cut. */
function encodeText(text: string): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  if (encoded.length <= MAX_ENCODED_ERROR) return encoded;
  return encodeURIComponent(text.slice(0, Math.floor(MAX_ENCODED_ERROR / 9)).toWellFormed());
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
