/** Shorter ones are words, not secrets: to remove them would make an answer unreadable. */
const MIN_LENGTH = 8;

/** What is between the parts of a path, a query or a header: `Token token="KEY"`, `/bot12:KEY/`, `?keys=a,KEY`. A part alone may be the key. */
const SEPARATORS = /[\s/?&=,;:"'|()<>[\]{}]/;
/** Credentials that a receiver decodes. */
const BASIC = /^basic\s+([\w+/-]+)/i;

/** Characters as they are. */
const PLAIN = /\p{ASCII}+|[^]/gu;
/** Entities that escapers of HTML write by name, for what is in a URL or a header. */
const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  ast: "*",
  bsol: "\\",
  colon: ":",
  comma: ",",
  commat: "@",
  dollar: "$",
  equals: "=",
  excl: "!",
  grave: "`",
  gt: ">",
  hat: "^",
  lbrace: "{",
  lbrack: "[",
  lcub: "{",
  lowbar: "_",
  lpar: "(",
  lsqb: "[",
  lt: "<",
  num: "#",
  percnt: "%",
  period: ".",
  plus: "+",
  quest: "?",
  quot: '"',
  rbrace: "}",
  rbrack: "]",
  rcub: "}",
  rpar: ")",
  rsqb: "]",
  semi: ";",
  sol: "/",
  vert: "|",
};
/** Characters as they are, or one that is escaped, once or more often: for a URL, HTML, JSON, or a text in a program. */
const ESCAPED = new RegExp(
  [
    String.raw`(?:%(?:25)*|\\+x)(?<byte>[\da-f]{2})`,
    String.raw`&(?:amp;)*(?:#0*(?<decimal>\d{1,7})|#x0*(?<hex>[\da-f]{1,6})|(?<name>${Object.keys(NAMED).join("|")}));`,
    String.raw`(?<units>(?:\\+u[\da-f]{4})+)`,
    String.raw`\\+`,
    String.raw`(?:(?![%&\\])\p{ASCII})+`,
    "[^]",
  ].join("|"),
  "giu",
);
/** A character in UTF-8 whose bytes are one character each, or a byte that belongs to none. */
const UTF8 = /[\xC2-\xDF][\x80-\xBF]|[\xE0-\xEF][\x80-\xBF]{2}|[\xF0-\xF4][\x80-\xBF]{3}|[^]/g;

interface Place {
  readonly start: number;
  readonly end: number;
}

/** What a text says, however it is written: letters small. */
interface Reading {
  readonly said: string;
  /** Where in the text each unit of that is written. */
  readonly places: readonly Place[];
}

/**
 * A function that takes out of a receiver's answer what it may repeat of the request and what may be a key: custom headers, and path and
 * query of the URL (many services have their key there, and many servers answer 404 with the path). A receiver may repeat it as it was sent,
 * decoded or escaped, in small letters or capitals, as a whole or in parts.
 */
export function createRedactor(url: URL, headers: Readonly<Record<string, string>>): (text: string) => string {
  const path = `${url.pathname}${url.search}`;
  const sent = [path, ...Object.values(headers).flatMap((value) => [value, ...credentials(value)])];
  // Parts of what was sent, and of what that says once it is decoded.
  const texts = sent.flatMap(parts).flatMap((each) => readings(each).map(({ said }) => said));
  const secrets = new Set(texts.flatMap(parts).filter(({ length }) => length >= MIN_LENGTH));
  return (text) =>
    without(
      text,
      readings(text).flatMap((reading) => [...secrets].flatMap((secret) => placesOf(secret, reading))),
    );
}

function parts(text: string): readonly string[] {
  return [text, ...text.split(SEPARATORS)];
}

/** User and password of Basic authentication, together and the password alone: it may have any character. */
function credentials(value: string): readonly string[] {
  const decoded = Buffer.from(BASIC.exec(value)?.[1] ?? "", "base64").toString();
  return decoded === "" ? [] : [decoded, decoded.slice(decoded.indexOf(":") + 1)];
}

/** What is in front of a key may look like the beginning of an escape that takes the key's first letters in: both ways, then. */
function readings(text: string): readonly Reading[] {
  return [read(text, PLAIN), read(text, ESCAPED)];
}

function read(text: string, characters: RegExp): Reading {
  const places: Place[] = [];
  let bytes = "";
  for (const match of text.matchAll(characters)) {
    const written = bytesOf(match);
    bytes += written;
    const { index: start } = match;
    const { length } = match[0];
    // ASCII as it is has as many bytes as characters; nothing else has.
    const isPlain = written.length === length;
    for (let at = 0; at < written.length; at++) {
      places.push(isPlain ? { start: start + at, end: start + at + 1 } : { start, end: start + length });
    }
  }
  return small(bytes, places);
}

/** What bytes say. The bytes of one character may be written one by one, so letters are made small only here. */
function small(bytes: string, places: readonly Place[]): Reading {
  let said = "";
  const saidAt: Place[] = [];
  for (const { 0: character, index } of bytes.matchAll(UTF8)) {
    const decoded = character.length === 1 ? character : Buffer.from(character, "latin1").toString();
    // Both ways, for letters that have more than one small form. In a query, a plus sign is a blank.
    const letters = decoded === "+" ? " " : decoded.toUpperCase().toLowerCase();
    const place = { start: places[index]!.start, end: places[index + character.length - 1]!.end };
    said += letters;
    for (let unit = 0; unit < letters.length; unit++) saidAt.push(place);
  }
  return { said, places: saidAt };
}

/** In UTF-8, each byte as a character. */
function bytesOf({ 0: written, groups = {} }: RegExpExecArray): string {
  const { byte, decimal, hex, name, units } = groups;
  if (byte !== undefined) return String.fromCharCode(Number.parseInt(byte, 16));
  return Buffer.from(said()).toString("latin1");

  function said(): string {
    if (name !== undefined) return NAMED[name.toLowerCase()] ?? "";
    if (units !== undefined)
      return units.replaceAll(/\\+u([\da-f]{4})/gi, (_unit, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    if (code <= 0x10_ff_ff) return String.fromCodePoint(code);
    // Backslashes: JSON writes more of them than there are.
    return written.startsWith("\\") ? "" : written;
  }
}

function placesOf(secret: string, { said, places }: Reading): Reading["places"] {
  const found = [];
  for (let at = said.indexOf(secret); at >= 0; at = said.indexOf(secret, at + secret.length)) {
    found.push({ start: places[at]!.start, end: places[at + secret.length - 1]!.end });
  }
  return found;
}

function without(text: string, found: Reading["places"]): string {
  let rest = "";
  let done = 0;
  for (const { start, end } of found.toSorted((a, b) => a.start - b.start)) {
    if (start >= done) rest += `${text.slice(done, start)}[removed]`;
    done = Math.max(done, end);
  }
  return rest + text.slice(done);
}
