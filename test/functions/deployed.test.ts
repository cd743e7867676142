/** The app as it is deployed: one zip for all that is tried with it. */
import { afterAll, beforeAll } from "vitest";
import { bindingsSuite } from "./bindings.suite.ts";
import { endingSuite } from "./ending.suite.ts";
import { packageAndUnpack, SETUP_MS, type UnpackedApp } from "./host/unpacked-app.ts";
import { httpSuite } from "./http.suite.ts";
import { packageSuite } from "./package.suite.ts";
import { pipelineSuite } from "./pipeline.suite.ts";
import { telemetrySuite } from "./telemetry.suite.ts";

let app: UnpackedApp;

beforeAll(() => {
  app = packageAndUnpack();
}, 3 * SETUP_MS);

afterAll(() => app?.[Symbol.dispose](), SETUP_MS);

packageSuite(() => app);
bindingsSuite(() => app);
httpSuite(() => app);
telemetrySuite(() => app);
endingSuite(() => app);
pipelineSuite(() => app);
