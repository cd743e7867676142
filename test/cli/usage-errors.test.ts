/** Command lines that are wrong: told like any other error, and under `--json` as JSON. */
import { describe, expect, test, vi } from "vitest";
import { createProgram } from "../../src/cli/program.ts";
import { reportUsageError } from "../../src/cli/usage-error.ts";
import { runCli } from "./run-cli.ts";

const CASES = [
  { name: "an unknown option", args: ["status", "--no-such"], says: "unknown option '--no-such'", help: "ordered-outbox status --help" },
  { name: "a missing argument", args: ["wake"], says: "missing required argument 'order'", help: "ordered-outbox wake --help" },
  { name: "one too many", args: ["status", "x"], says: "too many arguments", help: "ordered-outbox status --help" },
  {
    name: "a missing option",
    args: ["dead", "redrive", "o-1"],
    says: "required option '--reason <text>' not specified",
    help: "ordered-outbox dead redrive --help",
  },
  {
    name: "a bad value",
    args: ["cleanup", "--archive-days", "0"],
    says: "A whole number from 1 to 3650 is needed.",
    help: "ordered-outbox cleanup --help",
  },
  {
    name: "options that exclude each other",
    args: ["orders", "list", "--parked", "--unrelayed"],
    says: "cannot be used with",
    help: "ordered-outbox orders list --help",
  },
  { name: "an unknown command", args: ["stauts"], says: "unknown command 'stauts' (Did you mean status?)", help: "ordered-outbox --help" },
  { name: "half a command", args: ["dead"], says: "one of list, show, redrive, discard", help: "ordered-outbox dead --help", usage: true },
  { name: "a text with an escape sequence in it", args: ["status", "--\u001b[2J"], says: String.raw`'--\u001b[2J'`, help: "status --help" },
];

interface Told {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** As main.ts does it, without a process of its own. */
async function told(words: readonly string[]): Promise<Told> {
  const written = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    vi.spyOn(process[name], "write").mockImplementation((text) => {
      written[name] += String(text);
      return true;
    });
  }
  try {
    const program = createProgram("0.0.0", words);
    const error: unknown = await program.parseAsync(words, { from: "user" }).catch((thrown: unknown) => thrown);
    const status = reportUsageError(program, error, words);
    return { status, ...written };
  } finally {
    vi.restoreAllMocks();
  }
}

describe.each(CASES)("$name", ({ args, says, help, usage = false }) => {
  test("with --json: one JSON object on stdout, JSON lines on stderr, exit 2", async () => {
    const { status, stdout, stderr } = await told([...args, "--json"]);
    expect(status).toBe(2);
    const error = { code: "invalid-option", message: expect.stringContaining(says), hint: expect.stringContaining(help) };
    expect(JSON.parse(stdout)).toEqual({ error });
    const lines = stderr.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([{ level: "error", message: error.message, hint: error.hint }]);
  });

  test("without: on stderr, with the next step, exit 2", async () => {
    const { status, stdout, stderr } = await told(args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain(usage ? "Usage: ordered-outbox dead" : says);
    expect(stderr).not.toContain("\u001b");
    if (!usage) expect(stderr).toContain(`${help}\`.\n`);
  });
});

test("a --json behind -- is an argument", async () => {
  expect(await told(["status", "--", "--json"])).toMatchObject({ status: 2, stdout: "", stderr: expect.stringContaining("too many") });
});

test("work, which prints nothing but its log, logs it alone", async () => {
  const { status, stdout, stderr } = await told(["work", "--json", "--workflow", "x", "--concurrency", "0"]);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(JSON.parse(stderr)).toMatchObject({ level: "error", message: expect.stringContaining("from 1 to 256") });
});

test("in a process of its own", async () => {
  const { status, stdout, stderr } = await runCli(["dead", "redrive", "o-1", "--json"], "");
  expect(status).toBe(2);
  expect(JSON.parse(stdout)).toMatchObject({ error: { code: "invalid-option" } });
  expect(JSON.parse(stderr)).toMatchObject({ level: "error" });
});

test("help that is asked for is no error", async () => {
  expect(await runCli(["dead", "--help"], "")).toMatchObject({ status: 0, stderr: "", stdout: expect.stringContaining("redrive") });
});
