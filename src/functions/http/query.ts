/** Query parameters, read strictly: an OrderId may have any character, and a slip must not become another order. */
import { z } from "zod";
import { printable } from "../../core/errors.ts";
import { HttpProblem } from "./problem.ts";

/**
 * From the URL itself: the library's own map has joined repeated parameters by commas, and replaced bytes that are no UTF-8.
 *
 * @throws HttpProblem 400
 */
export function readQuery<Schema extends z.ZodType>(url: string, schema: Schema): z.output<Schema> {
  const values = new Map<string, string>();
  for (const pair of new URL(url).search.slice(1).split("&")) {
    if (pair === "") continue;
    const at = pair.indexOf("=");
    const name = decoded(at < 0 ? pair : pair.slice(0, at));
    // The function key may come as a parameter; it is the host's business.
    if (name === "code" || name === "clientId") continue;
    if (values.has(name)) throw new HttpProblem(400, `the parameter ${printable(name, 40)} stands there twice`);
    values.set(name, decoded(at < 0 ? "" : pair.slice(at + 1)));
  }
  const result = schema.safeParse(Object.fromEntries(values));
  if (!result.success) throw new HttpProblem(400, `wrong parameters: ${issuesText(result.error)}`);
  return result.data;
}

/** Names and rules only: values may be long, or not for a log. */
export function issuesText({ issues }: z.ZodError): string {
  const text = issues.map(({ path, message }) => `${path.length === 0 ? "" : `${path.join(".")}: `}${message}`).join("; ");
  return printable(text, 500);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new HttpProblem(400, "the query is not percent-encoded UTF-8: write % as %25");
  }
}
