import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** A file of lines that other processes write to. */
export class GrowingFile {
  readonly #path: string;
  #position = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** The lines that have come since the last time, each with its line end; of one that is being written nothing yet. */
  readNew(): string {
    const file = openSync(this.#path, "r");
    try {
      const bytes = Buffer.alloc(fstatSync(file).size - this.#position);
      const length = readSync(file, bytes, 0, bytes.length, this.#position);
      const end = bytes.subarray(0, length).lastIndexOf("\n") + 1;
      this.#position += end;
      return bytes.toString("utf8", 0, end);
    } finally {
      closeSync(file);
    }
  }
}
