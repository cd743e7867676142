/** Strings, brackets and separators, and whatever stands between them (numbers, `true`, `false`, `null`). */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/**
 * The exact source text of each member of a JSON object, so that data can be committed byte for byte: `JSON.parse` would round
 * `12345678901234567890` and rewrite `1.0`.
 *
 * @param json the text of an object that `JSON.parse` has accepted; only that makes this short scan sound
 * @returns undefined if a name appears twice: readers of JSON disagree about which one counts
 */
export function jsonMembers(json: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>();
  let depth = 0;
  let name: string | undefined;
  let valueStart = 0;
  for (const { 0: token, index } of json.matchAll(TOKEN)) {
    if (depth === 1) {
      if (name === undefined) {
        if (token.startsWith('"')) name = JSON.parse(token) as string;
      } else if (token === ":") {
        valueStart = index + 1;
      } else if (token === "," || token === "}") {
        if (members.has(name)) return undefined;
        members.set(name, json.slice(valueStart, index).trim());
        name = undefined;
      }
    }
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
  }
  return members;
}
