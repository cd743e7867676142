/** `POST operations/discard`: finish what waits without handling it (F4). */
import { app } from "@azure/functions";
import { deciding } from "./http/deciding.ts";
import { operation } from "./http/routes.ts";

app.http("operationsDiscard", { ...operation("discard"), authLevel: "function", handler: deciding("discard") });
