import { createRequire } from "node:module";

interface LokiCollection {
  readonly data: readonly unknown[];
  remove(document: unknown): void;
  removeBatchByPositions: (this: LokiCollection, positions: readonly number[]) => void;
}

const require = createRequire(import.meta.url);

/** Loads a module as Azurite does: its own copy, wherever npm has put it. */
export const requireOfAzurite: NodeJS.Require = createRequire(require.resolve("azurite/package.json"));

/**
 * Azurite's database sorts every index of a collection anew for each batch of removals, even for a batch of one or none, and Azurite makes
 * one at each queue call, each blob deletion and, thousands in a row, when it clears up each minute. A run of some thousand events would
 * slow down to a fourth and stand still for longer than the deadline of a storage call. Removing a single document does without.
 */
export function removeSingleDocumentsCheaply(): void {
  const { Collection } = requireOfAzurite("lokijs") as { readonly Collection: { readonly prototype: LokiCollection } };
  const removeBatch = Collection.prototype.removeBatchByPositions;
  Collection.prototype.removeBatchByPositions = function (positions) {
    const [first] = positions;
    if (first === undefined) return;
    if (positions.length === 1) this.remove(this.data[first]);
    else removeBatch.call(this, positions);
  };
}
