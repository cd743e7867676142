/** Options of a webhook, checked once. What may be a key (URL, secrets, header values) is never repeated in a message. */
import type { Webhook } from "standardwebhooks";
import { OutboxError, printable } from "../core/errors.ts";
import { wholeNumber } from "../core/options.ts";
import type { ClientErrorPolicy } from "./answer.ts";
import { refusedHost } from "./addresses.ts";
import { signerOf } from "./secrets.ts";

export interface WebhookOptions {
  /** Where to: `https://…`, without user and password. */
  readonly url: string;
  /** `whsec_` and the base64 text of 24 to 64 random bytes. Either this or `secrets`. */
  readonly secret?: string;
  /** During a rotation the new one and the old one: every attempt is signed with both. */
  readonly secrets?: readonly string[];
  /**
   * The whole time of an attempt: lookup, connect, TLS, sending, headers, body. Default 15,000; 1,000 to 120,000. The subscription's
   * `retry.timeoutMs` must be longer.
   */
  readonly timeoutMs?: number;
  /** How much of an answer is kept, to show its first 200 characters when it is a refusal; more is cancelled. Default 4,096; 0 to 65,536. */
  readonly maxResponseBytes?: number;
  /** Lets the webhook connect to private, loopback, link-local and other special addresses, metadata services among them. Default false. */
  readonly allowPrivateAddresses?: boolean;
  /** Lets the URL be `http://`: everybody on the way can read the events. Default false. */
  readonly allowHttp?: boolean;
  /** A 4xx other than 408, 410, 425 and 429: no retry (`dead`, the default), or like any other failure (`retry`). */
  readonly clientErrors?: ClientErrorPolicy;
  /** More headers, for example `authorization`. Those that the webhook sends itself are refused. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ResolvedWebhookOptions {
  readonly url: URL;
  readonly signers: readonly Webhook[];
  readonly timeoutMs: number;
  readonly maxResponseBytes: number;
  readonly allowPrivateAddresses: boolean;
  readonly clientErrors: ClientErrorPolicy;
  readonly headers: Readonly<Record<string, string>>;
}

/** How an option is called where its value was written. */
export type OptionName = (option: keyof WebhookOptions | `secrets[${number}]`) => string;

/** Set by the webhook, by the connection, or of a meaning that would change it. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "accept-encoding",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "traceparent",
  "tracestate",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** @throws `invalid-option` naming the option and what is allowed */
export function resolveWebhookOptions(options: WebhookOptions, name: OptionName, minTimeoutMs = 1_000): ResolvedWebhookOptions {
  const allowHttp = flag(name("allowHttp"), options.allowHttp);
  const allowPrivateAddresses = flag(name("allowPrivateAddresses"), options.allowPrivateAddresses);
  const clientErrors: unknown = options.clientErrors ?? "dead";
  if (clientErrors !== "dead" && clientErrors !== "retry") {
    throw refusal(name("clientErrors"), clientErrors, '"dead" or "retry" is allowed (default "dead")');
  }
  return {
    url: urlOf(options.url, name, { allowHttp, allowPrivateAddresses }),
    signers: signersOf(options, name),
    timeoutMs: wholeNumber(name("timeoutMs"), options.timeoutMs, { default: 15_000, min: minTimeoutMs, max: 120_000 }),
    maxResponseBytes: wholeNumber(name("maxResponseBytes"), options.maxResponseBytes, { default: 4_096, min: 0, max: 65_536 }),
    allowPrivateAddresses,
    clientErrors,
    headers: headersOf(name("headers"), options.headers ?? {}),
  };
}

function urlOf(
  text: unknown,
  optionName: OptionName,
  { allowHttp, allowPrivateAddresses }: { readonly allowHttp: boolean; readonly allowPrivateAddresses: boolean },
): URL {
  const name = optionName("url");
  const url = typeof text === "string" ? URL.parse(text) : null;
  if (url === null) throw new OutboxError("invalid-option", `${name} is no URL: https://host/path is allowed`);
  if (url.protocol === "http:" && !allowHttp) {
    throw new OutboxError("invalid-option", `${name} is an http: URL: https: is allowed, http: only with ${optionName("allowHttp")}`);
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new OutboxError("invalid-option", `${name} is a URL of the scheme ${printable(url.protocol, 20)} https: is allowed`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new OutboxError("invalid-option", `${name} has a user or password in it: the option headers takes an authorization`);
  }
  // What a name leads to shows when it is connected to; of an address it is known by now, and no event has to die for it.
  const refused = allowPrivateAddresses ? undefined : refusedHost(url.hostname);
  if (refused !== undefined) {
    throw new OutboxError(
      "invalid-option",
      `${name}: ${printable(refused, 300)}: allowed only with ${optionName("allowPrivateAddresses")}`,
    );
  }
  return url;
}

function signersOf({ secret, secrets }: WebhookOptions, name: OptionName): readonly Webhook[] {
  if ((secret === undefined) === (secrets === undefined)) {
    throw new OutboxError("invalid-option", `either ${name("secret")} or ${name("secrets")} is needed, not both`);
  }
  if (secrets === undefined) return [signerOf(name("secret"), secret)];
  if (!Array.isArray(secrets) || secrets.length < 1 || secrets.length > 2) {
    throw new OutboxError("invalid-option", `${name("secrets")} must be the secret, or the new and the old one during a rotation`);
  }
  return secrets.map((each: unknown, index) => signerOf(name(`secrets[${index}]`), each));
}

function headersOf(name: string, headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const lowerCase: Record<string, string> = {};
  for (const [header, value] of Object.entries(headers)) {
    const key = header.toLowerCase();
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(key)) throw refusal(name, header, "names of HTTP headers are allowed");
    if (OWN_HEADERS.has(key) || key.startsWith("webhook-")) throw refusal(name, header, "the webhook sets this header itself");
    if (Object.hasOwn(lowerCase, key)) throw refusal(name, header, "a header is allowed once");
    if (typeof value !== "string" || !/^[\x20-\x7E]*$/.test(value)) {
      throw new OutboxError("invalid-option", `${name}: the value of ${header} must be printable ASCII`);
    }
    lowerCase[key] = value;
  }
  return lowerCase;
}

function flag(name: string, value: unknown): boolean {
  if (value === undefined || typeof value === "boolean") return value ?? false;
  throw refusal(name, value, "true or false is allowed (default false)");
}

function refusal(name: string, value: unknown, allowed: string): OutboxError {
  return new OutboxError("invalid-option", `${name} is ${printable(JSON.stringify(value) ?? "undefined", 60)}: ${allowed}`);
}
