/** `POST operations/redrive`: run what waits again at its own place (F4). */
import { app } from "@azure/functions";
import { deciding } from "./http/deciding.ts";
import { operation } from "./http/routes.ts";

app.http("operationsRedrive", { ...operation("redrive"), authLevel: "function", handler: deciding("redrive") });
