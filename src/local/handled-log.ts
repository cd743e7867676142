/**
 * One file that the handlers of all workers append to. The operating system appends each record as a whole and keeps it when the writer is
 * killed, so the order of the lines is the order in which the handlers ran, whichever process they ran in.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { decodeRecord, encodeRecord, type HandledRecord } from "./handled-record.ts";

export class HandledLogWriter {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  /** Synchronous on purpose: when it returns, the record outlives this process. */
  append(record: HandledRecord): void {
    const bytes = Buffer.from(encodeRecord(record));
    const written = writeSync(this.#file, bytes);
    if (written !== bytes.length) throw new Error(`only ${written} of ${bytes.length} bytes of a record were written: is the disk full?`);
  }

  close(): void {
    closeSync(this.#file);
  }
}

const READ_BYTES = 1 << 18;
const LINE_FEED = 0x0a;

/** Reads the records while they are being appended. */
export class HandledLogReader {
  readonly #file: FileHandle;
  readonly #buffer: Buffer = Buffer.alloc(READ_BYTES);
  #position = 0;
  /** The beginning of a line whose end is not there yet. */
  #rest: Buffer = Buffer.alloc(0);
  #torn = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Creates the file: readers and writers may come in any order. */
  static async open(path: string): Promise<HandledLogReader> {
    return new HandledLogReader(await open(path, "a+"));
  }

  /** Records that were begun and never completed. Counts one that is being written just now, so ask once the writers are gone. */
  get torn(): number {
    return this.#torn + (this.#rest.length > 0 ? 1 : 0);
  }

  /** The records appended since the last call, in order. Calls must not overlap. */
  async readNew(): Promise<HandledRecord[]> {
    const records: HandledRecord[] = [];
    for (;;) {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, READ_BYTES, this.#position);
      if (bytesRead === 0) return records;
      this.#position += bytesRead;
      const bytes = Buffer.concat([this.#rest, this.#buffer.subarray(0, bytesRead)]);
      let start = 0;
      for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
        const line = bytes.toString("utf8", start, end);
        start = end + 1;
        if (line === "") continue;
        const record = decodeRecord(line);
        if (record === undefined) this.#torn += 1;
        else records.push(record);
      }
      this.#rest = Buffer.from(bytes.subarray(start));
    }
  }

  async close(): Promise<void> {
    await this.#file.close();
  }
}
