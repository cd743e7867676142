/** What the README tells one to paste is run as it stands there, as a program of its own on Azurite. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, inject, onTestFinished, test, vi } from "vitest";
import type { AnyWorkflow } from "../../src/core/workflow.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { connectStorage } from "../../src/storage/connect.ts";
import { verifyWebhook } from "../../src/webhook/verify-webhook.ts";
import { signatures, signerOf } from "../../src/webhook/secrets.ts";

const MAX_SECTION_LINES = 20;

let folder: string;
let readme: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ordered-outbox-"));
  readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
});

afterEach(() => rm(folder, { recursive: true }));

/** From the heading to the next one. */
function section(heading: string): string {
  const start = readme.indexOf(`\n## ${heading}\n`) + 1;
  expect(start, `the README has a section ${heading}`).toBeGreaterThan(0);
  const text = readme.slice(start);
  return text.slice(0, text.search(/\n##+ (?!#)/)).trimEnd();
}

function snippets(heading: string): string[] {
  return [...section(heading).matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code!);
}

function snippet(heading: string): string {
  return snippets(heading)[0] ?? "";
}

/** Writes TypeScript into a file of its own. Only the names of packages are made to point here. */
async function write(name: string, code: string): Promise<string> {
  const program = code
    .replaceAll(`"ordered-outbox"`, JSON.stringify(new URL("../../src/index.ts", import.meta.url).href))
    .replaceAll(`"zod"`, JSON.stringify(import.meta.resolve("zod")));
  const path = join(folder, name);
  await writeFile(path, program);
  return path;
}

/** Runs TypeScript as Node does. */
async function run(code: string, settings: Readonly<Record<string, string>> = {}): Promise<string[]> {
  const path = await write("pasted.ts", code);
  const env = { ...process.env, ...settings, ORDERED_OUTBOX_CONNECTION_STRING: inject("azurite") };
  const { stdout } = await promisify(execFile)(process.execPath, [path], { env, timeout: 25_000 });
  return stdout.trimEnd().split("\n");
}

/** What the compiler says of TypeScript in a project that has this package. Rejects with its errors. */
async function compile(...codes: readonly string[]): Promise<void> {
  const here = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
  await Promise.all(codes.map((code, index) => writeFile(join(folder, `pasted-${index}.ts`), code)));
  const config = {
    extends: here("tsconfig.json"),
    compilerOptions: {
      // What a snippet only shows, nobody reads.
      noUnusedLocals: false,
      typeRoots: [here("node_modules/@types")],
      paths: { "ordered-outbox": [here("src/index.ts")], zod: [here("node_modules/zod/index.d.ts")] },
    },
    include: [join(folder, "pasted-*.ts")],
  };
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
  try {
    await promisify(execFile)(here("node_modules/.bin/tsc"), ["--project", folder], { timeout: 25_000 });
  } catch (error) {
    throw new Error((error as { readonly stdout: string }).stdout, { cause: error });
  }
}

test("`Add a subscription` works when it is pasted below the SDK in 20 lines, and is no longer than that", async () => {
  expect(section("Add a subscription").split("\n").length).toBeLessThanOrEqual(MAX_SECTION_LINES);
  const lines = await run(`${snippet("The SDK in 20 lines")}\n${snippet("Add a subscription")}`);
  const notified = lines.filter((line) => /^\d shipment\./.test(line));
  expect(notified.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
    "1 shipment.instructed",
    "2 shipment.shipped",
    "3 shipment.shipped",
  ]);
  // A new subscription starts with the next event.
  expect(lines.filter((line) => line.startsWith("100 "))).toEqual(["100 #3: dhl"]);
});

test("the module of `Run the worker in a container` is what `work --workflow` takes, with webhooks by settings", async () => {
  const code = snippet("Run the worker in a container");
  await compile(code);
  expect(section("Run the worker in a container")).toContain("work --workflow ./shipment.ts");
  const path = await write("shipment.ts", code);
  const prefix = "module";
  const connectionString = inject("azurite");
  const storage = connectStorage({ connectionString, prefix });
  await storage.createResources();
  const { workflow } = (await import(path)) as { readonly workflow: AnyWorkflow };
  const outbox = createOutbox({ workflow, storage });
  await outbox.commit("100", () => ({ state: { status: "shipped" }, events: [{ type: "shipment.shipped", data: { carrier: "dhl" } }] }));

  // The receiver knows another secret: what a rotation in the wrong order comes to.
  const secretOf = (byte: string): string => `whsec_${Buffer.alloc(32, byte).toString("base64")}`;
  const accepted = [secretOf("a")];
  const statuses: number[] = [];
  const receiver = createServer((request, response) => {
    void buffer(request).then((body) => {
      statuses.push(verifyWebhook(accepted, request.headers, body).ok ? 204 : 401);
      response.writeHead(statuses.at(-1)!).end();
    });
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  onTestFinished(() => void receiver.close());
  const settings = {
    ORDERED_OUTBOX_CONNECTION_STRING: connectionString,
    ORDERED_OUTBOX_WEBHOOK_PARTNER_URL: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`,
    ORDERED_OUTBOX_WEBHOOK_PARTNER_SECRET: secretOf("b"),
    ORDERED_OUTBOX_WEBHOOK_PARTNER_ALLOW_HTTP: "true",
    ORDERED_OUTBOX_WEBHOOK_PARTNER_ALLOW_PRIVATE_ADDRESSES: "true",
  };
  const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
  const env = { ...process.env, ...settings };
  const worker = spawn(process.execPath, [main, "work", "--workflow", "./shipment.ts", "--prefix", prefix, "--no-schedule"], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(worker, "exit");
  onTestFinished(async () => {
    worker.kill();
    await ended;
  });
  let handled = "";
  worker.stdout.setEncoding("utf8").on("data", (text: string) => void (handled += text));
  await vi.waitUntil(() => handled === "1 shipment.shipped\n" && statuses.length > 0, { timeout: 20_000 });
  const dead = async (): Promise<number> => {
    const { stdout } = await promisify(execFile)(process.execPath, [main, "dead", "list", "--prefix", prefix, "--json"], { env });
    return (JSON.parse(stdout) as { readonly letters: readonly unknown[] }).letters.length;
  };
  while ((await dead()) === 0);

  accepted.push(secretOf("b"));
  const [, redrive = ""] = /run them again: `(dead redrive [^`]+)`/.exec(section("Webhooks").replaceAll("\n", " ")) ?? [];
  const words = Array.from(redrive.matchAll(/"([^"]*)"|\S+/g), ([word, quoted]) => quoted ?? word);
  await promisify(execFile)(process.execPath, [main, ...words, "--prefix", prefix], { env });
  await vi.waitUntil(() => statuses.length > 1, { timeout: 20_000 });
  expect(statuses).toEqual([401, 204]);
  expect(handled).toBe("1 shipment.shipped\n");
});

test("the TypeScript of `Webhooks` compiles", async () => {
  const [sender, receiver, ...others] = snippets("Webhooks");
  expect(others).toEqual([]);
  await compile(`${snippet("The SDK in 20 lines")}\n${sender}`, receiver!);
});

test("`Webhooks`: what the sender's lines send, the receiver's lines take once, and garbage ends neither", async () => {
  const [sender, receiver] = snippets("Webhooks") as [string, string];
  const secret = `whsec_${Buffer.alloc(32, "r").toString("base64")}`;
  const path = await write(
    "receiver.ts",
    `${receiver.replace("listen(8080)", "listen(0)")}
server.on("listening", () => console.log("port", (server.address() as { port: number }).port));`,
  );
  const child = spawn(process.execPath, [path], { env: { ...process.env, WEBHOOK_SECRET: secret }, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  let written = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (written += text));
  const port = await vi.waitUntil(() => /^port (\d+)\n/.exec(written)?.[1], { timeout: 20_000 });
  const url = `http://127.0.0.1:${port}/hooks`;

  // Another order than that of the other test. `erp` gets nothing here: it is somebody's server.
  const lines = await run(
    `${snippet("The SDK in 20 lines")}\n${sender}
const receiving = createWorker({ workflow, subscriptions: [notify, ...fromSettings], storage });
await outbox.commit("100", () => ({ state: { status: "shipped" }, events: [{ type: "shipment.shipped", data: { carrier: "dhl", trackingNumber: "DE-2" } }] }));
console.log(await receiving.handle("100"));`.replaceAll('"100"', '"200"'),
    {
      ORDERED_OUTBOX_WEBHOOK_PARTNER_URL: url,
      ORDERED_OUTBOX_WEBHOOK_PARTNER_SECRET: secret,
      ORDERED_OUTBOX_WEBHOOK_PARTNER_ALLOW_HTTP: "true",
      ORDERED_OUTBOX_WEBHOOK_PARTNER_ALLOW_PRIVATE_ADDRESSES: "true",
      ERP_SECRET: secret,
      ERP_TOKEN: "of-the-erp-system",
    },
  );
  expect(lines.at(-1)).toBe("{ status: 'done', retryInMs: 0, handled: 2, problems: [] }");
  await vi.waitUntil(() => written.includes("\n}\n"), { timeout: 20_000 });
  const printed = written.slice(written.indexOf("{"));
  // The members that the README shows, and no others.
  const [, shown] = /```json\n([\s\S]*?)```/.exec(section("Webhooks")) ?? [];
  const members = [...printed.matchAll(/^ {2}(\w+): /gm)].map(([, name]) => name);
  expect(members).toEqual(Object.keys(JSON.parse(shown!) as object));
  expect(printed).toContain("subject: '200'");
  expect(printed).toContain("sequence: '3'");

  const post = async (body: string, headers: Readonly<Record<string, string>>): Promise<number> =>
    (await fetch(url, { method: "POST", body, headers })).status;
  const signed = (body: string, id: string, by = secret): Readonly<Record<string, string>> => ({
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(Date.now() / 1_000)),
    "webhook-signature": signatures([signerOf("secret", by)], id, Date.now(), body),
  });
  expect(await post("{", {})).toBe(401);
  expect(await post("\u0000", { "webhook-id": "\u00FF", "webhook-timestamp": "now", "webhook-signature": "v1" })).toBe(401);
  expect(await post("{}", signed("{}", "x", `whsec_${Buffer.alloc(32, "q").toString("base64")}`))).toBe(401);
  expect(await post("{ }", signed("{}", "x"))).toBe(401);
  // Breaks off in the middle of its body.
  const socket = connect(Number(port), "127.0.0.1");
  socket.end("POST /hooks HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  await once(socket.resume(), "close");
  // Signed, but no JSON: the work fails, and the answer is none.
  await expect(post("{", signed("{", "y"))).rejects.toThrow("fetch failed");
  // The same id once more, and it is still there.
  const before = written;
  const id = /^ {2}id: '(\w+)'/m.exec(printed)?.[1] ?? "";
  expect(await post("{}", signed("{}", id))).toBe(204);
  expect(await post('{"n":1}', signed('{"n":1}', "z"))).toBe(204);
  await vi.waitUntil(() => written !== before, { timeout: 20_000 });
  expect(written).toBe(`${before}{ n: 1 }\n`);
});
