/** The sample of a receiver, as a process of its own. */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { deliver, eventOf, failureOf, SECRET, secretOf, until, webhookTo } from "./webhook-support.ts";

let receiver: ChildProcessByStdio<null, Readable, null> | undefined;

afterEach(async () => {
  if (receiver === undefined || receiver.exitCode !== null) return;
  receiver.kill();
  await once(receiver, "exit");
});

/** Starts it; `lines` are those it has written since. */
async function start(secrets: string): Promise<{ readonly url: string; readonly lines: () => string[] }> {
  const script = fileURLToPath(new URL("./fixtures/receiver.ts", import.meta.url));
  const env = { ...process.env, WEBHOOK_SECRETS: secrets, PORT: "0" };
  const child = spawn(process.execPath, [script], { env, stdio: ["ignore", "pipe", "inherit"] });
  receiver = child;
  let written = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (written += text));
  await until(() => written.includes("\n"));
  const [first] = written.split("\n") as [string];
  return { url: `http://127.0.0.1:${first.replace("listening on ", "")}/hook`, lines: () => written.split("\n").slice(1, -1) };
}

test("handles an event once however often it comes, and survives garbage", async () => {
  const { url, lines } = await start(`${secretOf("n")} ${SECRET}`);
  const webhook = webhookTo(url);
  const [first, second] = [eventOf('{"id":9007199254740993,"note":"\u2028 \u{1F4E6}"}'), eventOf()];
  await deliver(webhook, first);
  await deliver(webhook, first);
  await deliver(webhookTo(url, { secrets: [secretOf("n"), secretOf("o")] }), second);
  expect(await failureOf(deliver(webhookTo(url, { secret: secretOf("x") })))).toMatchObject({
    name: "PermanentError",
    message: expect.stringMatching(/answered 401$/),
  });
  expect(await failureOf(deliver(webhook, eventOf(JSON.stringify("x".repeat(2_000_000)))))).toBeInstanceOf(Error);
  for (const headers of [{}, { "webhook-id": "\u00FF", "webhook-timestamp": "now", "webhook-signature": "v1" }]) {
    expect((await fetch(url, { method: "POST", headers, body: new Uint8Array([0xff]) })).status).toBe(401);
  }
  await deliver(webhook, second);
  await until(() => lines().length > 1);
  expect(lines()).toEqual([`${first.id} ${first.text}`, `${second.id} ${second.text}`]);
});

test("without a secret it asks for another try", async () => {
  const { url } = await start("");
  expect(await failureOf(deliver(webhookTo(url)))).toHaveProperty("name", "RetryableError");
});
