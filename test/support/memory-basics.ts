/** Small things that the memory ports share. */

/** Etags of one account: unique, never used twice. */
export class Etags {
  #last = 0;

  next(): string {
    this.#last += 1;
    return `"0x${this.#last.toString(16).toUpperCase().padStart(15, "0")}"`;
  }
}

export function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Callers and store must not share objects; bytes come out as plain Uint8Arrays, as from the account. */
export function copy<Value>(value: Value): Value {
  return structuredClone(value);
}
