/** The frame of all functions of the operations API: reads the request, answers in JSON, tells failures as problems. */
import type { HttpHandler, HttpRequest, HttpResponseInit, InvocationContext } from "@azure/functions";
import type { z } from "zod";
import { describeError, describeStack, isOutboxError, printable } from "../../core/errors.ts";
import type { OperationsContext, Operator } from "../../operations/context.ts";
import { systemClock } from "../../system/clock.ts";
import { application, type Application } from "../app/application.ts";
import { REQUEST_BUDGET_MS } from "../app/function-timeout.ts";
import { inInvocation, invocationLogger } from "../app/invocation-logger.ts";
import { aborting, tracked } from "../app/running.ts";
import { actorOf } from "./actor.ts";
import { readJsonBody } from "./json-body.ts";
import { HttpProblem, jsonAnswer, problemOf, RETRY_LATER } from "./problem.ts";
import { readQuery } from "./query.ts";
import { methodOf } from "./routes.ts";

/** @param run gets the parameters; must not change anything */
export function reading<Query extends z.ZodType>(
  query: Query,
  run: (context: OperationsContext, query: z.output<Query>, app: Application) => Promise<unknown>,
): HttpHandler {
  return answering(async (request) => {
    const parameters = readQuery(request.url, query);
    const app = await startedApp();
    return run(contextOf(app), parameters, app);
  });
}

interface ChangeBody {
  readonly reason: string;
  readonly actor?: string | undefined;
}

/** @param run gets the body and who asks for the change. Nothing is read from the query. */
export function changing<Body extends z.ZodType<ChangeBody>>(
  body: Body,
  run: (context: OperationsContext, body: z.output<Body>, operator: Operator) => Promise<unknown>,
): HttpHandler {
  return answering(async (request) => {
    // First of all: who may not change anything learns nothing of the rest.
    actorOf(request.headers, undefined, process.env);
    const change = await readJsonBody(request, body);
    const operator = { actor: actorOf(request.headers, change.actor, process.env), reason: change.reason };
    return run(contextOf(await startedApp()), change, operator);
  });
}

/** For whatever no other function takes. */
export function refusing(): HttpHandler {
  return answering((request) => {
    const path = request.params["path"] ?? "";
    const allowed = methodOf(path);
    if (allowed === undefined) throw new HttpProblem(404, `there is no operation ${printable(path, 60)}`);
    throw new HttpProblem(405, `operations/${path.toLowerCase()} takes ${allowed}`, { headers: { allow: allowed } });
  });
}

/** `run` may throw at once, too. */
function answering(run: (request: HttpRequest) => Promise<unknown>): HttpHandler {
  return (request, context) =>
    inInvocation(context, () =>
      tracked(async () => {
        try {
          return jsonAnswer(await run(request));
        } catch (error) {
          return refused(error, context);
        }
      }),
    );
}

function refused(error: unknown, { functionName, invocationId }: InvocationContext): HttpResponseInit {
  const answer = problemOf(error, invocationId);
  const status = answer.status ?? 500;
  const stack = isOutboxError(error) || status < 500 ? undefined : describeStack(error);
  invocationLogger[status < 500 ? "info" : "error"]("a request was refused", {
    function: functionName,
    status,
    error: describeError(error),
    stack,
  });
  return answer;
}

/** A setting that is wrong is not the caller's mistake, and its name not the caller's business. */
async function startedApp(): Promise<Application> {
  try {
    return await application();
  } catch (error) {
    invocationLogger.error("the app can't be put together", { error: describeError(error) });
    throw new HttpProblem(503, "the app can't be put together: see the log of this invocation", { headers: RETRY_LATER });
  }
}

/** The front end gives up at 230 s: what takes longer is ended between two steps, and says so. */
function contextOf({ storage }: Application): OperationsContext {
  return {
    storage,
    clock: systemClock,
    logger: invocationLogger,
    signal: AbortSignal.any([aborting, AbortSignal.timeout(REQUEST_BUDGET_MS)]),
  };
}
