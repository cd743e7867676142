/** Texts and bytes that nobody expects, and damaged copies of those that are. */
import * as fc from "fast-check";

const SPECIAL = [
  "",
  " ",
  "0",
  "-1",
  "1e5",
  "NaN",
  "Infinity",
  "9007199254740993",
  "12345678901234567890",
  "null",
  "true",
  "[]",
  "{}",
  '""',
  "..",
  "../idle",
  "idle/",
  "idle.",
  "IDLE",
  " idle",
  "idle\u0000",
  "~69dle",
  "%69dle",
  "a/b",
  "a%2Fb",
  "\ud800",
  "\u202eeldi",
  "e\u0301",
  "\u00e9",
  "\u001b[2J",
  "x\n2026-01-01 error forged",
  "__proto__",
  "constructor",
  "toString",
  "blocked",
  "parked",
  "discard",
  "redrive",
  "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
  "00000000000000000000000000",
] as const;

export const texts: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...SPECIAL) },
  { weight: 3, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  { weight: 2, arbitrary: fc.string({ maxLength: 200 }) },
  { weight: 2, arbitrary: fc.json({ maxDepth: 2 }) },
  { weight: 2, arbitrary: fc.integer().map(String) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 40 }).map((text) => JSON.stringify(text)) },
  {
    weight: 1,
    arbitrary: fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 }), { maxLength: 5 }).map((units) => String.fromCharCode(...units)),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom(...SPECIAL), fc.integer({ min: 1, max: 70_000 })).map(([text, length]) => text.padEnd(length, "x")),
  },
);

/** What is done to a text. */
export type Damage = (text: string) => string;

/** A piece is replaced, cut out or put in; or everything is something else. */
export const damages: fc.Arbitrary<Damage> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(fc.nat(1_000), fc.nat(8), texts).map(([at, length, text]) =>
      named(`at ${at} ${length} -> ${JSON.stringify(text.slice(0, 80))}`, (old) => {
        const start = at % (old.length + 1);
        return old.slice(0, start) + text + old.slice(start + length);
      }),
    ),
  },
  { weight: 2, arbitrary: texts.map((text) => named(JSON.stringify(text.slice(0, 80)), () => text)) },
  { weight: 2, arbitrary: fc.nat(1_000).map((length) => named(`cut at ${length}`, (old) => old.slice(0, length % (old.length + 1)))) },
  // One member of an event is that of another event.
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom("id", "sequence", "subject", "type"),
        fc.constantFrom("01KDVDNA01NHAD521JD6ASAG2Y", "1", "2", "3", "idle", "other"),
      )
      .map(([member, value]) =>
        named(`${member} -> ${value}`, (old) => old.replace(new RegExp(`"${member}":"[^"]*"`), `"${member}":"${value}"`)),
      ),
  },
  // One value of a JSON text is another one.
  {
    weight: 4,
    arbitrary: fc.tuple(fc.nat(20), fc.oneof(fc.jsonValue({ maxDepth: 1 }), texts)).map(([at, value]) =>
      named(`value ${at} -> ${JSON.stringify(value).slice(0, 80)}`, (old) => {
        let count = 0;
        try {
          return JSON.stringify(JSON.parse(old), (name, own: unknown) => (name !== "" && count++ === at ? value : own));
        } catch {
          return old;
        }
      }),
    ),
  },
);

/** So that a counter-example says what it does. */
function named(name: string, damage: Damage): Damage {
  return Object.assign(damage, { [fc.toStringMethod]: () => name });
}
