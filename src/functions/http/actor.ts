/** Who asks for a change, for the audit log (G6). */
import { printable } from "../../core/errors.ts";
import type { Environment } from "../app/settings.ts";
import { HttpProblem } from "./problem.ts";

const PRINCIPAL_HEADERS = ["x-ms-client-principal", "x-ms-client-principal-id", "x-ms-client-principal-name", "x-ms-client-principal-idp"];
const MAX_NAME_LENGTH = 60;
const MAX_ID_LENGTH = 36;

/**
 * With App Service authentication on, the platform removes these headers from requests and sets them itself: then the signed-in principal is the
 * actor, and nobody else. With it off, anybody can send them, so a request that does is refused; what is known is that the caller has a function
 * key, and a name given in the body is recorded as unverified.
 *
 * @param stated `actor` of the body
 * @throws HttpProblem 401, 403 or 422
 */
export function actorOf(headers: Headers, stated: string | undefined, environment: Environment): string {
  if (environment["WEBSITE_AUTH_ENABLED"]?.toLowerCase() === "true") {
    if (stated !== undefined) throw new HttpProblem(422, "wrong body: actor: the signed-in principal is the actor, leave it out");
    return principalOf(headers);
  }
  const forged = PRINCIPAL_HEADERS.find((name) => headers.has(name));
  if (forged !== undefined) {
    throw new HttpProblem(
      403,
      `the header ${forged} is not believed: App Service authentication is off. State a name as "actor" in the body`,
    );
  }
  return stated === undefined ? "function key" : `function key, as ${printable(stated, MAX_NAME_LENGTH)} (unverified)`;
}

function principalOf(headers: Headers): string {
  const id = headers.get("x-ms-client-principal-id");
  // A service principal has no name.
  const name = headers.get("x-ms-client-principal-name") ?? id;
  if (!isPrincipal(headers.get("x-ms-client-principal")) || id === null || id === "" || name === null || name === "") {
    throw new HttpProblem(401, "sign in: changes need an authenticated principal", { headers: { "www-authenticate": "Bearer" } });
  }
  const shownId = printable(id, MAX_ID_LENGTH);
  return name === id ? shownId : `${printable(name, MAX_NAME_LENGTH)} (${shownId})`;
}

/** Base64 of a JSON object with claims, as the platform makes it. */
function isPrincipal(header: string | null): boolean {
  try {
    const principal: unknown = JSON.parse(Buffer.from(header ?? "", "base64").toString("utf8"));
    return typeof principal === "object" && principal !== null && "claims" in principal && Array.isArray(principal.claims);
  } catch {
    return false;
  }
}
