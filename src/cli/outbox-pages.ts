/** How commands that look for unrelayed events bound that look, and say that it was bounded. */
import type { Option } from "commander";
import { OUTBOX_PAGES } from "../operations/unrelayed.ts";
import { numberOption } from "./arguments.ts";

export function outboxPagesOption(): Option {
  return numberOption("--max-pages <pages>", "pages of the table to look through for events that are not relayed", OUTBOX_PAGES);
}

/** What is said when the look ended before the end of the table. */
export const STOPPED_EARLY = "The look through the table stopped early, there may be more: see --max-pages.";
