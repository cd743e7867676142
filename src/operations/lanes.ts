/**
 * Calls `work` for all items, at most `lanes` at a time, begun in the order of the items. After the first failure nothing new is begun; what
 * runs is waited for, then the failure is thrown.
 *
 * @returns the results, in the order of the items
 */
export async function inLanes<Item, Result>(
  items: Iterable<Item>,
  lanes: number,
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  const entries = [...items].entries();
  let failed = false;
  const lane = async (): Promise<void> => {
    for (const [index, item] of entries) {
      if (failed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: lanes }, lane));
  const failure = ended.find((result) => result.status === "rejected");
  if (failure !== undefined) throw failure.reason;
  return results;
}
