/** The command line of `npm start`. */
import { Command, InvalidArgumentError, Option } from "commander";

export interface LocalOptions {
  readonly input?: string;
  readonly orders: number;
  readonly seed: number;
  readonly producers: number;
  readonly workers: number;
  readonly kill: boolean;
  readonly json: boolean;
  readonly keep?: string;
}

const MAX_ORDERS = 1_000_000;
const MAX_SEED = 4_294_967_295;
const MAX_PROCESSES = 32;

/** @throws CommanderError for `--help` (its `exitCode` is 0) and for bad usage; the text is printed by then */
export function parseOptions(argv: readonly string[]): LocalOptions {
  return new Command("npm start --")
    .description(
      "Runs the whole pipeline on this machine: a storage account (Azurite), producers and workers as processes of their own, " +
        "and an audit at the end that compares what the handlers wrote down with what was committed.",
    )
    .addOption(
      new Option("--input <file>", "commit the events of an NDJSON file, one {orderId,type,time,data} a line, in the order of the file"),
    )
    .addOption(
      new Option("--orders <n>", "generate the shipment histories of this many orders")
        .argParser(whole(1, MAX_ORDERS))
        .default(200)
        .conflicts("input"),
    )
    .addOption(
      new Option("--seed <s>", "makes generated histories and the choice of kills repeatable").argParser(whole(0, MAX_SEED)).default(1),
    )
    .addOption(new Option("--producers <n>", "producer processes").argParser(whole(1, MAX_PROCESSES)).default(2))
    .addOption(new Option("--workers <n>", "worker processes").argParser(whole(1, MAX_PROCESSES)).default(2))
    .addOption(new Option("--kill", "kill and restart a random worker about every second while it runs").default(false))
    .addOption(new Option("--json", "print one JSON object on stdout, everything else on stderr").default(false))
    .addOption(new Option("--keep <dir>", "persist the storage account in this folder; later runs go on there and audit their own events"))
    .addHelpText("after", "\nExit code: 0 verified, 1 not verified or failed, 2 bad usage or input, 130 and 143 interrupted.")
    .exitOverride()
    .parse([...argv], { from: "user" })
    .opts<LocalOptions>();
}

function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (!/^[0-9]+$/.test(text) || number < min || number > max)
      throw new InvalidArgumentError(`A whole number from ${min} to ${max} is allowed.`);
    return number;
  };
}
