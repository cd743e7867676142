/** Which process this is, for people: host and process id. */
import { hostname } from "node:os";

/** What the metadata of a lease blob has room for beside the progress. */
const MAX_HOST_LENGTH = 48;

/** Plain words only: a name that something gave its host must not forge anything where this is shown. */
export const PROCESS_NAME: string = `${hostname()
  .slice(0, MAX_HOST_LENGTH)
  .replace(/[^\w.-]/g, "_")}:${process.pid}`;
