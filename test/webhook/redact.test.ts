/** Keys in parts of what was sent, and in spellings that a receiver may choose. What is shown of an answer otherwise: answers.test.ts. */
import { expect, test } from "vitest";
import { createRedactor } from "../../src/webhook/redact.ts";

const KEY = "kx93hf62-w0q";

function shown(answer: string, path: string, headers: Readonly<Record<string, string>> = {}): string {
  return createRedactor(new URL(path, "https://shop.example"), headers)(answer);
}

function basic(credentials: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

test.each([
  ["in quotes", "/", { authorization: `Token token="${KEY}"` }],
  ["in single quotes", "/", { "x-auth": `{'key':'${KEY}'}` }],
  ["behind a name and a colon", "/", { authorization: `ApiKey erp:${KEY}` }],
  ["behind a name and a colon, in the path", `/bot77:${KEY}/send`, {}],
  ["in a list, in the query", `/x?keys=one,${KEY}`, {}],
  ["in a list, in the query, escaped", `/x?keys=one%2C${KEY}%3Btwo`, {}],
  ["as the password of Basic", "/", basic(`erp:${KEY}`)],
])("a key %s is removed alone, and nothing else", (_name, path, headers) => {
  expect(shown(`no such key (${KEY}) at this shop`, path, headers)).toBe("no such key ([removed]) at this shop");
});

test("Basic, decoded: as a whole, and a password with colons and capitals in it", () => {
  const headers = basic("erp:Geh:eim:Wort");
  expect(shown("erp:Geh:eim:Wort, geh:eim:wort", "/", headers)).toBe("[removed], [removed]");
  expect(shown("erp is unknown", "/", headers)).toBe("erp is unknown");
});

test.each([
  ["a capital letter, decoded", "/hooks/geheim%C3%84wort", "no hook geheimÄwort here"],
  ["a capital letter as a small one", "/hooks/geheim%C3%84wort", "no hook geheimäwort here"],
  ["a small letter as a capital one, escaped", "/hooks/geheim%C3%A4wort", "no hook GEHEIM%C3%84WORT here"],
  ["a letter that has two small ones", "/hooks/%CE%BF%CE%B4%CF%8C%CF%82-kx93", "no hook ΟΔΌΣ-KX93 here"],
  ["a capital letter in JSON", "/hooks/geheim%C3%84wort", String.raw`no hook geheim\u00c4wort here`],
  ["bytes, in a program's text", "/hooks/geheim%C3%84wort", String.raw`no hook geheim\xc3\x84wort here`],
  ["a character, in a program's text", "/hooks/geheim%C3%84wort", String.raw`no hook geheim\xE4wort here`],
])("beyond ASCII: %s", (_name, path, answer) => {
  expect(shown(answer, path)).toMatch(/^no hook (\[removed\]|geheim\\xE4wort) here$/);
});

test.each([
  ["a program's text", String.raw`ab\x2bcd\x2Fef\x3d1`],
  ["a program's text in JSON", String.raw`ab\\x2bcd\\x2Fef\\x3d1`],
  ["HTML by names", "ab&plus;cd&sol;ef&equals;1"],
  ["HTML by names, in HTML", "ab&amp;plus;cd&amp;SOL;ef&amp;equals;1"],
  ["HTML by numbers with zeros in front", "ab&#x00000002b;cd&#0000000047;ef&#x3D;1"],
])("a key in the spelling of %s", (_name, answer) => {
  expect(shown(`bad key ${answer}!`, "/", { "x-key": "ab+cd/ef=1" })).toBe("bad key [removed]!");
});

test("short words that are part of a path or a header stay readable", () => {
  const headers = { authorization: `Token realm="shop", token="${KEY}"` };
  const answer = "token of realm shop: no order at /orders/v2, see {docs}";
  expect(shown(answer, "/orders/v2?see=docs", headers)).toBe(answer);
});
