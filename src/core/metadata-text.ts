/** Text in blob metadata. It travels in HTTP headers, so it is ASCII only, percent-encoded. */

/** @param maxLength of the encoded text; a longer one is cut. A UTF-16 unit takes up to nine characters. */
export function encodeMetadataText(text: string, maxLength: number = Number.POSITIVE_INFINITY): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  if (encoded.length <= maxLength) return encoded;
  return encodeURIComponent(text.slice(0, Math.floor(maxLength / 9)).toWellFormed());
}

/** Text that is not encoded comes back as it is. */
export function decodeMetadataText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A whole number from 0, or undefined for anything else. */
export function decodeWhole(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:0|[1-9][0-9]{0,14})$/.test(text)) return undefined;
  return Number(text);
}
