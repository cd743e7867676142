/** The operations API: its paths below `/api`, and the one method of each. Reading is GET and changes nothing; a change is a POST. */
import type { HttpMethod } from "@azure/functions";

export type Operation =
  | "status"
  | "orders"
  | "order"
  | "explain"
  | "dead-letters"
  | "dead-letter"
  | "verify"
  | "redrive"
  | "discard"
  | "pause"
  | "resume"
  | "wake";

const METHODS: Readonly<Record<Operation, HttpMethod>> = {
  status: "GET",
  orders: "GET",
  order: "GET",
  explain: "GET",
  "dead-letters": "GET",
  "dead-letter": "GET",
  verify: "GET",
  redrive: "POST",
  discard: "POST",
  pause: "POST",
  resume: "POST",
  wake: "POST",
};

/** For `app.http`. OrderIds never stand in the path: the front end decodes `%2F` and dot segments there before we see them. */
export function operation(name: Operation): { readonly route: string; readonly methods: HttpMethod[] } {
  return { route: `operations/${name}`, methods: [METHODS[name]] };
}

/** The method of a path below `operations/`, or undefined if there is none. Paths match in any case, as the host has it. */
export function methodOf(path: string): HttpMethod | undefined {
  const name = path.toLowerCase();
  return Object.hasOwn(METHODS, name) ? METHODS[name as Operation] : undefined;
}
