import { odata } from "@azure/data-tables";
import { expect, test } from "vitest";
import { partitionOf, selectiveFirst } from "./azurite-database.ts";

test.each([
  [odata`PartitionKey eq ${"o-1"} and RowKey ge ${"order"} and RowKey lt ${"outbox;"}`, "o-1"],
  [odata`PartitionKey eq ${"it's"} and RowKey gt ${"a"} and RowKey le ${"b"}`, "it's"],
  [odata`RowKey ge ${"order"}`, undefined],
  // Wider than one partition.
  [odata`PartitionKey eq ${"o-1"} or RowKey eq ${"x"}`, undefined],
  [odata`PartitionKey ge ${"o-1"}`, undefined],
  [undefined, undefined],
])("the partition of %s is %s", (filter, partition) => {
  expect(partitionOf(filter)).toBe(partition);
});

test("the most selective condition comes first, and none is lost", () => {
  const entries = (query: object | undefined): unknown => Object.entries(query!);
  expect(entries(selectiveFirst({ RowKey: "order", PartitionKey: "o-1" }))).toEqual([
    ["PartitionKey", "o-1"],
    ["RowKey", "order"],
  ]);
  expect(entries(selectiveFirst({ accountName: "a", containerName: "events", name: "x" }))).toEqual([
    ["name", "x"],
    ["accountName", "a"],
    ["containerName", "events"],
  ]);
  expect(selectiveFirst({ accountName: "a" })).toEqual({ accountName: "a" });
  expect(selectiveFirst(undefined)).toBeUndefined();
});

test("a listing by prefix becomes a range", () => {
  const query = { containerName: "events", name: { $regex: String.raw`^audit\/o\.1\/` } };
  expect(selectiveFirst(query)).toEqual({ containerName: "events", name: { $between: ["audit/o.1/", "audit/o.1/\uFFFF"] } });
  expect(selectiveFirst({ name: { $regex: "x" } })).toEqual({ name: { $regex: "x" } });
});
