import * as fc from "fast-check";
import { expect, test } from "vitest";
import { jsonMembers } from "../../src/local/json-members.ts";

test.each<[string, Record<string, string> | undefined]>([
  ["{}", {}],
  ['{"a":12345678901234567890,"b":1.0}', { a: "12345678901234567890", b: "1.0" }],
  [' { "data" : { "a" : [ 1 , {"b":"}"} ] } , "x" : null } ', { data: '{ "a" : [ 1 , {"b":"}"} ] }', x: "null" }],
  ['{"data":"a\\"},{\\\\"}', { data: '"a\\"},{\\\\"' }],
  ['{"d\\u0061ta":[]}', { data: "[]" }],
  ['{"":{"":{}}}', { "": '{"":{}}' }],
  ['{"a":1,"a":1}', undefined],
  ['{"a":1,"\\u0061":1}', undefined],
])("%s", (json, members) => {
  const found = jsonMembers(json);
  expect(found && Object.fromEntries(found)).toEqual(members);
});

test("C6: whatever the values and the white space, each member is its source text", () => {
  const members = fc.uniqueArray(fc.tuple(fc.string({ unit: "binary" }), fc.json({ stringUnit: "binary" })), {
    selector: ([name]) => name,
  });
  const space = fc.stringMatching(/^[ \t\r\n]*$/);
  fc.assert(
    fc.property(members, space, (expected, gap) => {
      const json = `${gap}{${expected.map(([name, value]) => `${gap}${JSON.stringify(name)}${gap}:${gap}${value}${gap}`).join(",")}}${gap}`;
      expect([...(jsonMembers(json) ?? [])]).toEqual(expected.map(([name, value]) => [name, value.trim()]));
    }),
  );
});
