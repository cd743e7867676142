import { beforeEach, describe, expect, it } from "vitest";
import { MAX_HIDDEN_MS, type ReceivedWakeUp, type Storage } from "../../src/core/ports.ts";
import { failure, present, type Connect } from "./harness.ts";

const HIDDEN_MS = 60_000;

export function describeWakeUpQueue(connect: Connect): void {
  describe("wake-up queue", () => {
    let storage: Storage;
    // A queue of its own for every test: they share no messages.
    beforeEach(async () => {
      ({ storage } = await connect());
    });

    const receiveOne = async (): Promise<ReceivedWakeUp> => {
      const [wakeUp] = await storage.wakeUps.receive(1, HIDDEN_MS);
      return present(wakeUp);
    };

    it("C23: carries a text unchanged", async () => {
      for (const text of ['"100"', '"\\u00e9\\ud83d\\udce6"', '"<a>&\\""', "o-1", "abcd"]) {
        await storage.wakeUps.send(text, 0);
        const wakeUp = await receiveOne();
        expect(wakeUp.text).toBe(text);
        expect(await storage.wakeUps.delete(wakeUp.receipt)).toBe(true);
      }
    });

    it("a received message is hidden, counted, and gone once deleted", async () => {
      await storage.wakeUps.send('"o-1"', 0);
      const wakeUp = await receiveOne();
      expect(wakeUp.dequeueCount).toBe(1);
      expect(await storage.wakeUps.receive(32, HIDDEN_MS)).toEqual([]);
      expect(await storage.wakeUps.delete(wakeUp.receipt)).toBe(true);
      expect(await storage.wakeUps.delete(wakeUp.receipt)).toBe(false);
    });

    it("receive takes no more than it is asked for and does not wait", async () => {
      expect(await storage.wakeUps.receive(32, HIDDEN_MS)).toEqual([]);
      for (let index = 0; index < 3; index++) await storage.wakeUps.send(`"${index}"`, 0);
      expect(await storage.wakeUps.receive(2, HIDDEN_MS)).toHaveLength(2);
      expect(await storage.wakeUps.receive(2, HIDDEN_MS)).toHaveLength(1);
    });

    it("a hidden message is not received until its sender shows it (design §4.5)", async () => {
      const receipt = await storage.wakeUps.send('"o-1"', HIDDEN_MS);
      expect(await storage.wakeUps.receive(32, HIDDEN_MS)).toEqual([]);
      await storage.wakeUps.hide(receipt, '"o-1"', 0);
      expect((await receiveOne()).text).toBe('"o-1"');
    });

    it("hide keeps the text and the count, and makes a new receipt", async () => {
      await storage.wakeUps.send('"o-1"', 0);
      const first = await receiveOne();
      const shown = await storage.wakeUps.hide(first.receipt, first.text, 0);
      expect(shown.messageId).toBe(first.receipt.messageId);
      const second = await receiveOne();
      expect(second).toMatchObject({ text: first.text, dequeueCount: 2 });
    });

    it("C33: an old receipt means that somebody else has it: hide throws not-found, delete says false", async () => {
      const sent = await storage.wakeUps.send('"o-1"', 0);
      const received = await receiveOne();
      await failure(storage.wakeUps.hide(sent, '"o-1"', 0), "not-found");
      expect(await storage.wakeUps.delete(sent)).toBe(false);
      const updated = await storage.wakeUps.hide(received.receipt, received.text, HIDDEN_MS);
      await failure(storage.wakeUps.hide(received.receipt, received.text, 0), "not-found");
      expect(await storage.wakeUps.delete(received.receipt)).toBe(false);
      expect(await storage.wakeUps.delete(updated)).toBe(true);
    });

    it("a message that is gone: hide throws not-found, delete says false", async () => {
      const receipt = await storage.wakeUps.send('"o-1"', HIDDEN_MS);
      await storage.wakeUps.delete(receipt);
      await failure(storage.wakeUps.hide(receipt, '"o-1"', 0), "not-found");
      expect(await storage.wakeUps.delete(receipt)).toBe(false);
    });

    it("C30: takes 7 days and refuses more, or less than nothing, with invalid-option", async () => {
      const receipt = await storage.wakeUps.send('"o-1"', MAX_HIDDEN_MS);
      const again = await storage.wakeUps.hide(receipt, '"o-1"', MAX_HIDDEN_MS);
      for (const hiddenMs of [MAX_HIDDEN_MS + 1, -1, Number.NaN]) {
        await failure(storage.wakeUps.send('"o-1"', hiddenMs), "invalid-option");
        await failure(storage.wakeUps.hide(again, '"o-1"', hiddenMs), "invalid-option");
        await failure(storage.wakeUps.receive(1, hiddenMs), "invalid-option");
      }
    });

    it.each([0, 33, 1.5])("receive refuses a maximum of %d with invalid-option", async (max) => {
      await failure(storage.wakeUps.receive(max, HIDDEN_MS), "invalid-option");
    });

    it("receive refuses to hide for no time with invalid-option", async () => {
      await failure(storage.wakeUps.receive(1, 0), "invalid-option");
    });

    it("C30: part of a second is rounded up, not away", async () => {
      await storage.wakeUps.send('"o-1"', 1);
      expect(await storage.wakeUps.receive(1, HIDDEN_MS)).toEqual([]);
    });

    it("an aborted signal sends nothing", async () => {
      await failure(storage.wakeUps.send('"o-1"', 0, { signal: AbortSignal.abort() }), "aborted");
      expect(await storage.wakeUps.receive(1, HIDDEN_MS)).toEqual([]);
    });
  });
}
